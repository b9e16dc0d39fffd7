"""An MPIJob that somebody brings: how it is started and suspended, and where its attempt stands; pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.kubernetes import names
from cluster.kubernetes.affinity import one_on_each
from cluster.kubernetes.pods import STAY
from cluster.kubernetes.seat import Seat
from cluster.kubernetes.seen import is_gone

JSON = dict[str, Any]
Job = Mapping[str, Any]


def is_suspended(job: Job) -> bool:
    """Say whether it is told to be: its pods may be there all the same."""
    return bool((job["spec"].get("runPolicy") or {}).get("suspend"))


def attempt_of(thing: Mapping[str, Any]) -> int | None:
    """Return the gang that an MPIJob or a pod of one runs, or ran last; None: none yet."""
    said = names.annotations_of(thing).get(names.ATTEMPT) or names.labels_of(thing).get(names.ATTEMPT, "")
    return int(said) if re.fullmatch(r"\d{1,18}", said) else None


def ended(job: Job) -> str:
    """Return `Succeeded` or `Failed` where it is over for good; blank: it is not."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in {"Succeeded", "Failed"} and condition["status"] == "True":
            return str(condition["type"])
    return ""


def suspending() -> JSON:
    """Return the merge patch that suspends it."""
    # A worker that failed would else stay, and its operator take it for one of the next attempt.
    return {"spec": {"runPolicy": {"suspend": True, "cleanPodPolicy": "All"}}}


def launchers(job: Job, pods: Iterable[Mapping[str, Any]]) -> list[JSON]:
    """Return the launchers of the attempt that a job runs or ran last, of all that are its own, marked as such.

    The operator makes what they are made from while the job is suspended, before anybody knows of an attempt, and not
    anew for each: so they bear no mark of ours, and which attempt one is of shows when it was made.
    """
    after = names.annotations_of(job).get(names.AFTER, "")
    marks = {names.ROLE: names.LAUNCHER, names.ATTEMPT: str(attempt_of(job))}
    return [
        {**pod, "metadata": {**pod["metadata"], "labels": {**names.labels_of(pod), **marks}}}
        for pod in pods
        if made_at(pod) > after and made_at(pod) >= made_at(job)
    ]


def due(job: Job, pods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the launchers that our gate holds though all workers of their attempt are ready.

    The operator asks for that only where it makes the launcher anew: of a job that was suspended it is there already,
    made when none of no workers was not ready, and would run before the first of them does.
    """
    if is_suspended(job) or attempt_of(job) is None:
        return []
    workers = job["spec"]["mpiReplicaSpecs"].get("Worker") or {}
    number = int(workers.get("replicas") or 0)
    if sum(map(_is_ready, pods)) < number:
        return []
    return [pod for pod in pods if not _is_worker(pod) and _is_held(pod)]


def _is_held(pod: Mapping[str, Any]) -> bool:
    """Say whether our gate keeps a pod from its place."""
    return any(gate["name"] == names.GATE for gate in pod["spec"].get("schedulingGates") or ())


def _is_ready(pod: Mapping[str, Any]) -> bool:
    if not _is_worker(pod) or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def made_at(thing: Mapping[str, Any]) -> str:
    """Return when an object was made, by the API server's clock and in a form that sorts by time."""
    return str(thing["metadata"].get("creationTimestamp", ""))


def starting(job: Job, gang: int, nodes: Sequence[str], tolerations: Iterable[str], after: str = "") -> JSON:
    """Return the merge patch that runs it as this gang, one worker on each of these nodes.

    `after`: when the last launcher of an earlier attempt was made; blank: there was none.
    """
    uid, workers = job["metadata"]["uid"], job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    pod = workers.get("spec") or {}
    mates = {names.ATTEMPT: str(gang), names.ROLE: names.WORKER}
    worker = {
        "metadata": {
            "labels": {names.BROUGHT: uid, **mates},
        },
        "spec": {
            "affinity": {**(pod.get("affinity") or {}), **one_on_each(nodes, mates)},
            "tolerations": _tolerations(pod.get("tolerations") or (), tolerations),
        },
    }
    return {
        "metadata": {"annotations": {names.ATTEMPT: str(gang), names.AFTER: after}},
        "spec": {
            # Workers that stay after the end would keep their cards for ever.
            "runPolicy": {"suspend": False, "cleanPodPolicy": "Running"},
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiReplicaSpecs": {"Worker": {"template": worker}},
        },
    }


def _tolerations(given: Iterable[JSON], keys: Iterable[str]) -> list[JSON]:
    ours = [*STAY, *({"key": key, "operator": "Exists"} for key in keys)]
    return [*(one for one in given if one not in ours), *ours]


def member(seat: Seat, job: Job | None, pods: Sequence[Mapping[str, Any]]) -> JSON:
    """Return a member, the worker on its node, as if it were a pod of its own.

    `pods` are those of its attempt, `job` None: it was deleted. Cards are free when no pod of the attempt is left,
    whatever the condition says before; and the operator has to have said that it suspended the job, else it may still
    make some.
    """
    live = [pod for pod in pods if not is_gone(pod)]
    is_its = job is not None and attempt_of(job) == seat.gang
    if job is not None and is_its and not is_suspended(job) and not ended(job):
        here = [pod for pod in live if _is_worker(pod) and pod["spec"].get("nodeName") == seat.node]
        is_up = any((pod.get("status") or {}).get("phase") == "Running" for pod in here)
        return _as_pod(seat, "Running" if is_up else "Pending", {"running": {}} if is_up else {})
    over = ended(job) if job is not None and is_its else ""
    # One that was deleted has its task stopped first: until then nothing is said of its end.
    unsure = seat.wanted if job is None else is_its and not over and not _says_suspended(job)
    if live or unsure:
        return _as_pod(seat, "Running", {"running": {}}, leaving=True)
    if over:
        code = 0 if over == "Succeeded" else _exit_code(pods)
        return _as_pod(seat, over, {"terminated": {"exitCode": code, "reason": over}})
    return _as_pod(seat, "Failed", {}, leaving=True)


def _says_suspended(job: Job) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Suspended" and each["status"] == "True" for each in conditions)


def _is_worker(pod: Mapping[str, Any]) -> bool:
    return names.labels_of(pod).get(names.ROLE) == names.WORKER


def _exit_code(pods: Iterable[Mapping[str, Any]]) -> int:
    """Return what the last launcher ended with; 1 where it is no more: only that it failed is known."""
    for pod in sorted(pods, key=made_at, reverse=True):
        for each in (pod.get("status") or {}).get("containerStatuses") or ():
            code = ((each.get("state") or {}).get("terminated") or {}).get("exitCode")
            if code and not _is_worker(pod):
                return int(code)
    return 1


def _as_pod(seat: Seat, phase: str, state: JSON, *, leaving: bool = False) -> JSON:
    labels = {
        names.INSTANCE: str(seat.id),
        names.GANG: str(seat.gang),
        names.RANK: str(seat.rank),
        names.HOST: str(seat.host),
        names.BROUGHT: "yes",
    }
    metadata: JSON = {"name": f"member {seat.rank}", "labels": labels}
    if leaving:
        metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z"  # that it leaves is all that is known
    status: JSON = {"phase": phase}
    if state:
        status["containerStatuses"] = [{"name": names.MAIN, "state": state}]
    return {"metadata": metadata, "spec": {"nodeName": seat.node}, "status": status}
