"""Which pods of an MPIJob print the log of which member: the launcher's stands with that of rank 0."""

from collections.abc import Iterable, Mapping
from typing import Any

from cluster.kubernetes import names
from cluster.kubernetes.pod_logs import Source

Pod = Mapping[str, Any]


def sources(rank: int, node: str, pods: Iterable[Pod]) -> list[Source]:
    """Return what goes into the log of the member on a node, from the pods of its attempt.

    Of rank 0 these are the launchers, one after the other where it is repeated, and beside them its worker, each of
    whose lines begins with the name of its pod; and, to say what keeps them, the workers that have no node yet.
    """
    found = sorted(
        pods, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"])
    )
    nodes = {node} if rank else {node, None}
    its = [pod for pod in found if _role(pod) == names.WORKER and pod["spec"].get("nodeName") in nodes]
    if rank:
        return [_source(pod) for pod in its]
    launchers = [pod for pod in found if _role(pod) == names.LAUNCHER]
    marked = [_source(pod, f"[{pod['metadata']['name']}] ") for pod in its]
    return [*(_source(pod) for pod in launchers), *marked]


def _role(pod: Pod) -> str:
    return names.labels_of(pod).get(names.ROLE, "")


def _source(pod: Pod, mark: str = "") -> Source:
    return Source(pod=pod, containers=_containers(pod), key=pod["metadata"]["uid"], mark=mark)


def _containers(pod: Pod) -> list[str]:
    """Return what runs before its command, and the container that does: not those that only run beside it."""
    before = (one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") != "Always")
    return [*(one["name"] for one in before), pod["spec"]["containers"][0]["name"]]
