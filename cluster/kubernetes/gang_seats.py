"""Which pod of a gang's MPIJob is which member, in the form of a pod of that member's own; pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.kubernetes import names
from cluster.kubernetes.seat import Seat

JSON = dict[str, Any]
NOT_THERE = frozenset({"pending", "starting"})  # phases in which a member may still have to get its pod


def gang_of(thing: Mapping[str, Any]) -> int | None:
    """Return the gang of an MPIJob of ours, or of a pod of one; None where its label says none."""
    said = names.labels_of(thing).get(names.GANG, "")
    return int(said) if said.isdecimal() else None


def is_ours(pod: Mapping[str, Any]) -> bool:
    """Say whether a pod is one of an MPIJob that was made for a gang."""
    labels = names.labels_of(pod)
    return names.ROLE in labels and names.BROUGHT not in labels


def seated(
    seats: Iterable[Seat], job: Mapping[str, Any] | None, pods: Sequence[JSON]
) -> tuple[dict[Seat, JSON], list[JSON]]:
    """Return each member's pod, and the pods that are no member's.

    A worker is whose node it is bound to. Those without a node yet stand for members without a pod yet, whichever: what
    keeps one of them keeps the gang. A member that has none at all is one whose MPIJob waits for the operator.
    """
    free = {(seat.rank == 0, seat.node): seat for seat in seats}
    found: dict[Seat, JSON] = {}
    rest = []
    for pod in sorted(pods, key=_order):
        key = (names.labels_of(pod)[names.ROLE] == names.LAUNCHER, pod["spec"].get("nodeName", ""))
        seat = free.get(key)
        if seat is None or _is_another(seat, pod):
            rest.append(pod)
        else:
            found[free.pop(key)] = pod
    strays = [pod for pod in rest if not _sit_down(pod, free, found)]
    if job is not None:
        found |= {seat: absent(job) for seat in free.values() if seat.phase in NOT_THERE}
    return {seat: _as_its(seat, pod) for seat, pod in found.items()}, strays


def absent(job: Mapping[str, Any]) -> JSON:
    """Return a pod that the operator has still to make, or never will since its MPIJob is leaving."""
    metadata: JSON = {"name": job["metadata"]["name"], "labels": {names.ROLE: ""}}
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if name in job["metadata"]:
            metadata[name] = job["metadata"][name]
    untouched = not (job.get("status") or {}).get("conditions")
    return {
        "metadata": metadata,
        "spec": {},
        "status": {"phase": "Pending"} | ({"reason": names.NO_OPERATOR} if untouched else {}),
    }


def is_there(pod: Mapping[str, Any]) -> bool:
    """Say whether a member's pod is one that the cluster has."""
    return bool(pod["metadata"].get("uid"))


def host_lines(pods: Mapping[Seat, Mapping[str, Any]], job: Mapping[str, Any]) -> str:
    """Return the host file of a gang, in the order of rank; blank where not all have a place yet."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    slots = job["spec"]["slotsPerWorker"]
    ranked = [pods[seat] for seat in sorted(pods, key=lambda seat: seat.rank)]
    if len(ranked) != workers(job) + 1 or not all(pod["spec"].get("nodeName") for pod in ranked):
        return ""
    known = (pod["spec"].get("hostname") or pod["metadata"]["name"] for pod in ranked)
    return "\n".join(f"{host}.{name}.{namespace}.svc slots={slots}" for host in known)


def workers(job: Mapping[str, Any]) -> int:
    """Return how many workers an MPIJob has."""
    return int(job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"])


def _order(pod: Mapping[str, Any]) -> tuple[bool, str]:
    """Order pods by who has the first claim on a seat: those that were told to start."""
    return names.GO not in names.annotations_of(pod), pod["metadata"]["name"]


def _is_another(seat: Seat, pod: Mapping[str, Any]) -> bool:
    """Say whether the operator made this pod in the place of one that ran: that is another run, and none of ours."""
    return seat.phase == "running" and not names.annotations_of(pod).get(names.GO)


def _sit_down(pod: JSON, free: dict[tuple[bool, str], Seat], found: dict[Seat, JSON]) -> bool:
    """Give a pod without a node to a member of its role that has none; say whether there was one."""
    if pod["spec"].get("nodeName"):
        return False
    is_first = names.labels_of(pod)[names.ROLE] == names.LAUNCHER
    for key in sorted(free, key=lambda key: free[key].rank):
        if key[0] == is_first and free[key].phase in NOT_THERE:
            found[free.pop(key)] = pod
            return True
    return False


def _as_its(seat: Seat, pod: JSON) -> JSON:
    metadata = pod["metadata"]
    labels = {
        **(metadata.get("labels") or {}),
        names.INSTANCE: str(seat.id),
        names.GANG: str(seat.gang),
        names.RANK: str(seat.rank),
        names.HOST: str(seat.host),
    }
    return {**pod, "metadata": {**metadata, "labels": labels}}
