"""A stand-in for the driver of ceph-csi: it shows a folder where volume, Secret and user are right."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.kubernetes.calls import Calls

JSON = dict[str, Any]


class NotMounted(Exception):
    """What the kubelet would say of a volume that it cannot mount."""


class CephCsi:
    """The ceph clusters that a driver reaches."""

    def __init__(self) -> None:
        """Reach none."""
        self.clusters: dict[str, Path] = {}  # by their monitors, or by the name in the driver's configuration
        self.users: dict[str, str] = {}  # name → key

    def stage(self, calls: Calls, namespace: str, claim: str) -> Path:
        """Return the folder that a claim is; raises NotMounted, calls.Refused."""
        wanted = calls.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
        volume = calls.get(f"/api/v1/persistentvolumes/{wanted['spec']['volumeName']}")["spec"]
        if volume["claimRef"] | {"namespace": namespace, "name": claim} != volume["claimRef"]:
            raise NotMounted(f"the volume is not for the claim {claim}")
        csi = volume["csi"]
        reference = csi["nodeStageSecretRef"]
        secret = calls.get(f"/api/v1/namespaces/{reference['namespace']}/secrets/{reference['name']}")
        self._log_in({key: base64.b64decode(value).decode() for key, value in secret["data"].items()})
        return self._find(csi["volumeAttributes"])

    def _log_in(self, said: Mapping[str, str]) -> None:
        if self.users.get(said["userID"]) != said["userKey"]:
            raise NotMounted("mount error 13 = Permission denied")

    def _find(self, attributes: Mapping[str, str]) -> Path:
        if attributes.get("staticVolume") == "true":
            where = attributes["clusterID"]
        elif attributes.get("provisionVolume") == "false":
            where = attributes["monitors"]
        else:
            raise NotMounted("missing required field monitors")
        if where not in self.clusters:
            raise NotMounted("mount error: no mds server is up or the cluster is laggy")
        return self.clusters[where] / attributes["rootPath"].strip("/")
