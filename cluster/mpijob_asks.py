"""What an MPIJob that somebody brings asks for, in the words of a task's document, and what is odd in it; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster import mpijob_shape

JSON = dict[str, Any]
Job = Mapping[str, Any]
GROUP = "taiji.io"
BUSINESS = f"{GROUP}/business"  # a label: it is to be a task of this business
OWNER = f"{GROUP}/owner"  # an annotation: who made it, as the API server said when it was made
ATTEMPT = f"{GROUP}/attempt"  # the number of the attempt that it runs, or ran last
AFTER = f"{GROUP}/after"  # when the last launcher of an earlier attempt was made
# A scheduling gate: a launcher gets no place before all workers are ready, which its operator makes sure of only
# where the job never was suspended.
GATE = f"{GROUP}/workers"
OURS = (OWNER, ATTEMPT, AFTER, *(f"{GROUP}/{name}" for name in ("task", "state", "reason")))
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-"
CLASSES: Mapping[str, bool | str] = {"high": False, "elastic": True, "auto": "auto"}
FLAGS = {"true": True, "false": False}
# What may be said of the task: annotation → field of a task's document.
TEXTS: Mapping[str, str] = {
    "gpu-type": "GPUName",
    "name": "task_flag",
    "priority": "priority",
    "time-limit": "time_limit",
}
KNOWN = ("class", "pull-up", *TEXTS)
OPERATOR = "kubeflow.org/mpi-operator"  # who runs a job that names nobody
MOST_DIGITS = 9  # of a number of cards; Python refuses to read one of thousands
WORKER, LAUNCHER = "spec.mpiReplicaSpecs.Worker", "spec.mpiReplicaSpecs.Launcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What an MPIJob asks for."""

    document: Mapping[str, Any]
    resource: str  # what its cards are called in the cluster; blank: none that could be given
    faults: Sequence[str] = field(default=())  # why it cannot be a task, a sentence each


def read(job: Job, region: str = "") -> Ask:
    """Return what an MPIJob asks for, with all that keeps it from being a task."""
    faults = mpijob_shape.faults(job)
    if faults:
        return Ask(document={}, resource="", faults=tuple(faults))
    metadata = job.get("metadata") or {}
    said = _said(metadata.get("annotations") or {}, faults)
    resource, size = _size(job.get("spec") or {}, faults)
    document: JSON = {
        "business_flag": (metadata.get("labels") or {}).get(BUSINESS, ""),
        "task_flag": metadata.get("name", ""),
        "region": region,
        "is_elasticity": _one_of(said, "class", CLASSES, "high", faults),
        "enable_evicted_pulled_up": _one_of(said, "pull-up", FLAGS, "false", faults),
        "start_cmd": f"# MPIJob {metadata.get('namespace', '')}/{metadata.get('name', '')}",
        **size,
    }
    document |= {name: said[key] for key, name in TEXTS.items() if said.get(key)}
    return Ask(document=document, resource=resource, faults=tuple(faults))


def resource_of(job: Job) -> str:
    """Return what the cards of the workers are called in the cluster; blank: none that could be given."""
    return _size(job["spec"], [])[0]


def _said(notes: Mapping[str, str], faults: list[str]) -> dict[str, str]:
    """Return what our annotations say of the task; one that does not exist is a fault, not passed over."""
    said = {
        name.removeprefix(f"{GROUP}/"): value
        for name, value in notes.items()
        if name.startswith(f"{GROUP}/") and name not in OURS
    }
    known = ", ".join(f"{GROUP}/{name}" for name in KNOWN)
    faults += [
        f"There is no annotation {GROUP}/{name}; of an MPIJob there are {known}."
        for name in sorted(said.keys() - set(KNOWN))
    ]
    return said


def _one_of(
    said: Mapping[str, str], key: str, known: Mapping[str, bool | str], default: str, faults: list[str]
) -> bool | str:
    value = said.get(key, default)
    if value not in known:
        faults.append(f"The annotation {GROUP}/{key} is {value!r}; it is one of {', '.join(known)}.")
    return known.get(value, False)


def _size(spec: Mapping[str, Any], faults: list[str]) -> tuple[str, JSON]:
    """Return the resource that its cards are, and the size of the task; neither where something is odd."""
    found = len(faults)
    replicas = spec.get("mpiReplicaSpecs") or {}
    workers, launcher = replicas.get("Worker") or {}, replicas.get("Launcher") or {}
    number, cards = int(workers.get("replicas") or 0), Counter[str]()
    if number > 0:
        cards = _cards(workers.get("template") or {}, WORKER, faults)
        faults += _odd_workers(workers, cards)
    else:
        faults.append(f"It has no workers ({WORKER}.replicas).")
    faults += _odd_launcher(spec, launcher)
    resource, each = next(iter(cards.items()), ("", 0))
    slots = int(spec.get("slotsPerWorker") or 1)
    if each and slots not in {1, each}:
        faults.append(f"slotsPerWorker is {slots}, and each worker asks for {each} cards: they differ.")
    if len(faults) > found:
        return "", {}
    return resource, {"host_num": number, "host_gpu_num": each}


def _odd_workers(workers: Mapping[str, Any], cards: Mapping[str, int]) -> list[str]:
    faults = []
    pod = (workers.get("template") or {}).get("spec") or {}
    if len(cards) > 1:
        named = ", ".join(sorted(cards))
        faults.append(f"Its workers ask for cards of several kinds ({named}): a task has cards of one.")
    elif not cards:
        faults.append(
            f"Its workers have to ask for cards as a limit: {GPU}, or slices such as {MIG}1g.5gb ({WORKER})."
        )
    if pod.get("nodeName"):
        faults.append(
            f"Its workers name a node ({WORKER}.template.spec.nodeName): nodes are chosen for them."
        )
    return faults


def _odd_launcher(spec: Mapping[str, Any], launcher: Mapping[str, Any]) -> list[str]:
    faults: list[str] = []
    policy = spec.get("runPolicy") or {}
    if not launcher:
        faults.append(f"It has no launcher ({LAUNCHER}).")
    elif _cards(launcher.get("template") or {}, LAUNCHER, []):
        faults.append(f"Its launcher asks for cards ({LAUNCHER}): only workers have some.")
    if spec.get("runLauncherAsWorker"):
        faults.append("spec.runLauncherAsWorker is true: its launcher has no cards, so it can be no worker.")
    if policy.get("managedBy") not in {None, "", OPERATOR}:
        faults.append(
            f"spec.runPolicy.managedBy is {policy['managedBy']!r}: the MPI operator here does not run it."
        )
    return faults


def _cards(template: Mapping[str, Any], where: str, faults: list[str]) -> Counter[str]:
    """Return how many cards of each kind the pods of a template hold."""
    found: Counter[str] = Counter()
    for container in (template.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in _kinds({**limits, **requests}):
            number, asked = str(limits.get(name, "")), str(requests.get(name, limits.get(name, "")))
            if number != asked or not number.isdecimal() or len(number) > MOST_DIGITS:
                faults.append(
                    f"{where} asks for {asked!r} {name} with a limit of {number!r}: a whole number as its limit "
                    "says both."
                )
            elif int(number):
                found[name] += int(number)
    return found


def _kinds(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name == GPU or name.startswith(MIG))
