"""An MPIJob that somebody brings: what it asks for, how it is started and suspended, where it stands; pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster.kubernetes import names
from cluster.kubernetes.nodes import GPU, use
from cluster.kubernetes.pods import STAY

JSON = dict[str, Any]
Job = Mapping[str, Any]
CLASSES: Mapping[str, bool | str] = {"high": False, "elastic": True, "auto": "auto"}
FLAGS = {"true": True, "false": False}
# What may be said of the task: annotation → field of a task's document.
TEXTS: Mapping[str, str] = {
    "gpu-type": "GPUName",
    "name": "task_flag",
    "priority": "priority",
    "time-limit": "time_limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What an MPIJob asks for."""

    owner: str
    document: Mapping[str, Any]
    faults: Sequence[str] = field(default=())  # why it cannot be a task, a sentence each


def read(job: Job, region: str) -> Ask:
    """Return what an MPIJob asks for, with all that keeps it from being a task."""
    faults: list[str] = []
    said = {
        name.removeprefix(f"{names.GROUP}/"): value
        for name, value in names.annotations_of(job).items()
        if name.startswith(f"{names.GROUP}/")
    }
    owner = said.get("owner", "")
    if not owner:
        faults.append(f"Nobody knows who made it: it has no annotation {names.OWNER}.")
    document: JSON = {
        "business_flag": names.labels_of(job)[names.BUSINESS],
        "task_flag": job["metadata"]["name"],
        "region": region,
        "is_elasticity": _one_of(said, "class", CLASSES, "high", faults),
        "enable_evicted_pulled_up": _one_of(said, "pull-up", FLAGS, "false", faults),
        "start_cmd": f"# MPIJob {job['metadata']['namespace']}/{job['metadata']['name']}",
        **_size(job, faults),
    }
    document |= {name: said[key] for key, name in TEXTS.items() if said.get(key)}
    return Ask(owner=owner, document=document, faults=tuple(faults))


def _one_of(
    said: Mapping[str, str], key: str, known: Mapping[str, bool | str], default: str, faults: list[str]
) -> bool | str:
    value = said.get(key, default)
    if value not in known:
        faults.append(f"The annotation {names.GROUP}/{key} is {value!r}; it is one of {', '.join(known)}.")
    return known.get(value, False)


def _size(job: Job, faults: list[str]) -> JSON:
    spec, found = job["spec"], len(faults)
    replicas = spec.get("mpiReplicaSpecs") or {}
    workers, launcher = replicas.get("Worker") or {}, replicas.get("Launcher")
    number = int(workers.get("replicas") or 0)
    asked = use(workers["template"]) if number and workers.get("template") else {}
    cards = asked.get(GPU, 0)
    if not launcher:
        faults.append("It has no launcher (spec.mpiReplicaSpecs.Launcher).")
    elif any(use(launcher["template"]).values()):
        faults.append("Its launcher asks for cards: only workers have some.")
    if not number:
        faults.append("It has no workers (spec.mpiReplicaSpecs.Worker.replicas).")
    elif not cards or set(asked) != {GPU}:
        faults.append(f"Its workers have to ask for cards as a limit of {GPU}, and for no others.")
    slots = int(spec.get("slotsPerWorker") or 1)
    if cards and slots not in {1, cards}:
        faults.append(f"slotsPerWorker is {slots}, and each worker asks for {cards} cards: they differ.")
    return {"host_num": number, "host_gpu_num": cards} if len(faults) == found else {}


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
    return {"spec": {"runPolicy": {"suspend": True}}}


def starting(job: Job, gang: int, nodes: Sequence[str], tolerations: Iterable[str]) -> JSON:
    """Return the merge patch that runs it as this gang, one worker on each of these nodes."""
    uid, workers = job["metadata"]["uid"], job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    pod = workers.get("spec") or {}
    worker = {
        "metadata": {"labels": _marks(uid, gang, "worker")},
        "spec": {
            "affinity": _affinity(pod.get("affinity") or {}, gang, nodes),
            "tolerations": _tolerations(pod.get("tolerations") or (), tolerations),
        },
    }
    launcher = {"metadata": {"labels": _marks(uid, gang, "launcher")}}
    clean = (job["spec"].get("runPolicy") or {}).get("cleanPodPolicy")
    return {
        "metadata": {"annotations": {names.ATTEMPT: str(gang)}},
        "spec": {
            # Workers that stay after the end would keep their cards for ever.
            "runPolicy": {"suspend": False, "cleanPodPolicy": clean if clean == "All" else "Running"},
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiReplicaSpecs": {"Worker": {"template": worker}, "Launcher": {"template": launcher}},
        },
    }


def _marks(uid: str, gang: int, role: str) -> dict[str, str]:
    return {names.BROUGHT: uid, names.ATTEMPT: str(gang), names.ROLE: role}


def _affinity(given: Mapping[str, Any], gang: int, nodes: Sequence[str]) -> JSON:
    """Return the affinity of workers: the planned nodes, a term each (a field takes one value), no two on one."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes
    ]
    mates = {names.ATTEMPT: str(gang), names.ROLE: "worker"}
    apart = {"labelSelector": {"matchLabels": mates}, "topologyKey": "kubernetes.io/hostname"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        **given,
        "nodeAffinity": {required: {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {required: [apart]},
    }


def _tolerations(given: Iterable[JSON], keys: Iterable[str]) -> list[JSON]:
    ours = [*STAY, *({"key": key, "operator": "Exists"} for key in keys)]
    return [*(one for one in given if one not in ours), *ours]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A member of an attempt: the worker on one node."""

    id: str
    gang: int
    rank: int
    host: int
    node: str
    wanted: bool


def is_over(pod: Mapping[str, Any]) -> bool:
    """Say whether nothing of a pod runs, or will."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed"} or (
        bool(pod["metadata"].get("deletionTimestamp")) and not pod["spec"].get("nodeName")
    )


def member(place: Place, job: Job | None, pods: Sequence[Mapping[str, Any]]) -> JSON:
    """Return a member as if it were a pod of its own; `pods` are those of its attempt, `job` None: it was deleted.

    Cards are free when no pod of the attempt is left, whatever the condition says before; and the operator has to have
    said that it suspended the job, else it may still make some.
    """
    live = [pod for pod in pods if not is_over(pod)]
    is_its = job is not None and attempt_of(job) == place.gang
    if job is not None and is_its and not is_suspended(job) and not ended(job):
        here = [pod for pod in live if _is_worker(pod) and pod["spec"].get("nodeName") == place.node]
        is_up = any((pod.get("status") or {}).get("phase") == "Running" for pod in here)
        return _as_pod(place, "Running" if is_up else "Pending", {"running": {}} if is_up else {})
    over = ended(job) if job is not None and is_its else ""
    # One that was deleted has its task stopped first: until then nothing is said of its end.
    unsure = place.wanted if job is None else is_its and not over and not _says_suspended(job)
    if live or unsure:
        return _as_pod(place, "Running", {"running": {}}, leaving=True)
    if over:
        code = 0 if over == "Succeeded" else _exit_code(pods)
        return _as_pod(place, over, {"terminated": {"exitCode": code, "reason": over}})
    return _as_pod(place, "Failed", {}, leaving=True)


def _says_suspended(job: Job) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Suspended" and each["status"] == "True" for each in conditions)


def _is_worker(pod: Mapping[str, Any]) -> bool:
    return names.labels_of(pod).get(names.ROLE) == "worker"


def _exit_code(pods: Iterable[Mapping[str, Any]]) -> int:
    """Return what the launcher ended with; 1 where its pod is no more: only that it failed is known."""
    for pod in pods:
        for each in (pod.get("status") or {}).get("containerStatuses") or ():
            code = ((each.get("state") or {}).get("terminated") or {}).get("exitCode")
            if code and not _is_worker(pod):
                return int(code)
    return 1


def _as_pod(place: Place, phase: str, state: JSON, *, leaving: bool = False) -> JSON:
    labels = {
        names.INSTANCE: place.id,
        names.GANG: str(place.gang),
        names.RANK: str(place.rank),
        names.HOST: str(place.host),
        names.BROUGHT: "yes",
    }
    metadata: JSON = {"name": f"member {place.rank}", "labels": labels}
    if leaving:
        metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z"  # that it leaves is all that is known
    status: JSON = {"phase": phase}
    if state:
        status["containerStatuses"] = [{"name": names.MAIN, "state": state}]
    return {"metadata": metadata, "spec": {"nodeName": place.node}, "status": status}
