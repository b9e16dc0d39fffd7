"""Private ceph of a task as volumes of ceph-csi: what is made for one attempt, and how its pods see it; pure.

The in-tree kind of volume is gone, and the driver mounts no inline ones: so each folder is a PersistentVolume with a
claim and a Secret of its own, named after the attempt, which its pods share. Nothing of it can be read in a pod.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.kubernetes import names
from cluster.kubernetes.options import Options

JSON = dict[str, Any]
DRIVER = "cephfs.csi.ceph.com"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
SIZE = "1Gi"  # which nobody counts: the API wants one
OURS = "/taiji"  # where a pod has what the platform gives it


def mounts(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the folders of ceph that an instance is to see."""
    return [each for each in spec.get("data") or () if each["kind"] == "ceph"]


def clash(spec: Mapping[str, Any], storage: str) -> str:
    """Return why a folder cannot be where the task wants it, in a sentence; blank: all can."""
    for each in mounts(spec):
        for taken in (OURS, storage):
            over, below = f"{taken}/".startswith(f"{each['dst']}/"), f"{each['dst']}/".startswith(f"{taken}/")
            if over or below:
                return f"Private ceph cannot be mounted at {each['dst']}: {taken} is the platform's own."
    return ""


def volumes(spec: Mapping[str, Any], gang: int) -> list[JSON]:
    """Return the volumes of a pod of the attempt."""
    return [
        {"name": f"ceph-{number}", "persistentVolumeClaim": {"claimName": name(gang, number)}}
        for number, _ in enumerate(mounts(spec))
    ]


def places(spec: Mapping[str, Any]) -> list[JSON]:
    """Return where the container sees them."""
    return [{"name": f"ceph-{number}", "mountPath": each["dst"]} for number, each in enumerate(mounts(spec))]


def name(gang: int, number: int) -> str:
    """Return what a folder's claim and Secret are called."""
    return f"taiji-{gang}-ceph-{number}"


def objects(
    spec: Mapping[str, Any], gang: int, keys: Mapping[str, str], options: Options
) -> Iterable[tuple[str, JSON]]:
    """Give all that the pods of an attempt need with its path, in the order in which it is made.

    `keys`: the secrets of the folders by number.
    """
    folder = f"/api/v1/namespaces/{options.namespace}"
    for number, each in enumerate(mounts(spec)):
        yield f"{folder}/secrets", _secret(each, gang, number, keys.get(str(number), ""), options)
        yield "/api/v1/persistentvolumes", _volume(each, gang, number, options)
        yield f"{folder}/persistentvolumeclaims", _claim(gang, number, options)


def _secret(each: Mapping[str, Any], gang: int, number: int, key: str, options: Options) -> JSON:
    """Return what the driver logs in with, on the node: pods do not name it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(name(gang, number), gang, options) | {"namespace": options.namespace},
        "type": "Opaque",
        "stringData": {"userID": each["name"], "userKey": key},
    }


def _volume(each: Mapping[str, Any], gang: int, number: int, options: Options) -> JSON:
    claim = {"namespace": options.namespace, "name": name(gang, number)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _metadata(volume_name(gang, number, options), gang, options),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": SIZE},
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",  # what is in it is not the platform's to remove
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim},
            "csi": {
                "driver": DRIVER,
                "volumeHandle": volume_name(gang, number, options),
                "nodeStageSecretRef": claim,
                "volumeAttributes": _attributes(each, options),
            },
        },
    }


def volume_name(gang: int, number: int, options: Options) -> str:
    """Return what a folder's volume is called: volumes are in no namespace, so it names that of tasks."""
    return f"{options.namespace}-{gang}-ceph-{number}"


def _claim(gang: int, number: int, options: Options) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(name(gang, number), gang, options) | {"namespace": options.namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "volumeName": volume_name(gang, number, options),
            "resources": {"requests": {"storage": SIZE}},
        },
    }


def _attributes(each: Mapping[str, Any], options: Options) -> dict[str, str]:
    """Return how the driver finds a folder: in a cluster of its own configuration, else by its monitors.

    The first is how its documentation has static volumes. The second is how it had them in its version 1.0, and
    mounts them up to now; no operator has to know the cluster beforehand.
    """
    for monitor in each["addr"].split(","):
        if known := options.ceph_clusters.get(monitor.strip()):
            cluster, _, fs_name = known.partition("/")
            named = {"fsName": fs_name} if fs_name else {}
            return {"clusterID": cluster, "staticVolume": "true", "rootPath": each["src"], **named}
    return {"monitors": each["addr"], "provisionVolume": "false", "rootPath": each["src"]}


def _metadata(called: str, gang: int, options: Options) -> JSON:
    return {
        "name": called,
        "labels": {
            "app.kubernetes.io/managed-by": "taiji",
            names.REGION: names.region_label(options.region),
            names.GANG: str(gang),
        },
    }
