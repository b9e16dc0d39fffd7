"""What a stand-in for the API server says that it serves: enough for kubectl to find the kinds of our manifests."""

from typing import Any

JSON = dict[str, Any]
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
KINDS = {  # group and version → kinds; those that stand in no namespace
    "v1": ("Pod", "Secret", "Service", "ServiceAccount", "Namespace", "ConfigMap", "PersistentVolumeClaim"),
    "apps/v1": ("Deployment", "StatefulSet"),
    "batch/v1": ("Job",),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
}
PLURALS = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}  # the others have an s more
OF_THE_CLUSTER = {"Namespace", "ClusterRole", "ClusterRoleBinding"}


def answer(path: str) -> JSON | None:
    """Return the answer to a question of discovery; None where the path is none."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [_group(name) for name in KINDS if "/" in name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = path.removeprefix("/apis/").removeprefix("/api/")
    return _resources(version) if version in KINDS else None


def _group(version: str) -> JSON:
    found = {"groupVersion": version, "version": version.rpartition("/")[2]}
    return {"name": version.partition("/")[0], "versions": [found], "preferredVersion": found}


def _resources(version: str) -> JSON:
    resources = [
        {
            "name": PLURALS.get(kind, f"{kind.lower()}s"),
            "singularName": kind.lower(),
            "kind": kind,
            "namespaced": kind not in OF_THE_CLUSTER,
            "verbs": VERBS,
        }
        for kind in KINDS[version]
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
