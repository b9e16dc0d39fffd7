"""What a pod says of its instance: phase, exit, and what keeps it or ended it, in our words; pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cluster.agent.records import STOPPED_EARLY
from cluster.kubernetes import names

Pod = Mapping[str, Any]
TERMINAL = frozenset({"Succeeded", "Failed"})
# A container that waits so will not get further by itself; the image is looked for again and again meanwhile.
IMAGE_TROUBLE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed"}
)
NO_IMAGE = frozenset({"InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
CANNOT = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
DETAIL_AT_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A pod in the words of cluster/agent/protocol.py."""

    phase: str  # starting, ready, running, ending, gone
    exit_code: int | None = None
    exit_signal: int | None = None
    by_itself: bool | None = None
    detail: str = ""
    cause: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What keeps a pod from starting; `for_good`: waiting will not help."""

    kind: str  # a word of protocol.CAUSES, or container
    sentence: str
    for_good: bool = False


def seen(pod: Pod, *, on_node: bool = True) -> Seen:
    """Return what a pod says of its instance; `on_node`: the node that it is on still exists."""
    commit = _commit(pod)
    if is_gone(pod, on_node=on_node):
        return _gone(pod, commit)
    if is_leaving(pod):
        return Seen(phase="ending", commit=commit)
    main = _main(pod)
    if "running" in main or "terminated" in main:
        waits = names.labels_of(pod).get(names.WAITS) and not names.annotations_of(pod).get(names.GO)
        return Seen(phase="ready" if waits else "running", commit=commit)
    return Seen(phase="starting", commit=commit)


def is_leaving(pod: Pod) -> bool:
    """Say whether the pod was told to end."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_gone(pod: Pod, *, on_node: bool = True) -> bool:
    """Say whether nothing of the pod runs, or will: what cannot be known is not gone.

    A phase alone is not enough: a node that evicts says Failed first and ends what runs then. Of a node that was
    taken out of its cluster nobody says more than that.
    """
    status = pod.get("status") or {}
    if not pod["spec"].get("nodeName"):
        return is_leaving(pod) or status.get("phase") in TERMINAL
    runs = on_node and any("running" in state for state in _states(status))
    return status.get("phase") in TERMINAL and not runs


def trouble(pod: Pod) -> Trouble | None:
    """Return what keeps a pod that is neither leaving nor gone from starting; None: nothing that it says."""
    status = pod.get("status") or {}
    if status.get("phase") not in {None, "Pending"} or is_leaving(pod):
        return None
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            said = _said(condition.get("message"))
            return Trouble(kind="place", sentence=f"The cluster finds no place for the pod: {said}.")
    for each in _containers(status):
        if found := _waiting(each):
            return found
    return None


def _waiting(status: Mapping[str, Any]) -> Trouble | None:
    waiting = (status.get("state") or {}).get("waiting") or {}
    reason, said = waiting.get("reason", ""), _said(waiting.get("message") or waiting.get("reason"))
    if reason in IMAGE_TROUBLE | NO_IMAGE:
        sentence = f"The image {status.get('image', '')} cannot be had: {said}."
        return Trouble(kind="image", sentence=sentence, for_good=reason in NO_IMAGE)
    if reason in CANNOT:
        return Trouble(kind="container", sentence=f"The container could not be started: {said}.")
    return None


def _gone(pod: Pod, commit: str) -> Seen:
    status = pod.get("status") or {}
    if verdict := names.annotations_of(pod).get(names.VERDICT):
        cause, _, sentence = verdict.partition("\n")
        return Seen(phase="gone", by_itself=True, detail=sentence, cause=cause, commit=commit)
    ended = _main(pod).get("terminated")
    by_itself = _by_itself(pod, ended)
    if ended is None:
        detail, cause = _never_ran(pod)
        return Seen(phase="gone", by_itself=by_itself, detail=detail, cause=cause, commit=commit)
    detail, cause = _taken(status), _cause(ended, status)
    if names.labels_of(pod).get(names.IDLE):  # how that which only keeps a place ends says nothing
        return Seen(phase="gone", by_itself=by_itself, detail=detail, cause=cause, commit=commit)
    signal = int(ended.get("signal") or 0) or None
    code = None if signal else ended.get("exitCode")
    return Seen(
        phase="gone",
        exit_code=code,
        exit_signal=signal,
        by_itself=by_itself,
        detail=detail,
        cause="" if code == 0 else cause,
        commit=commit,
    )


def _by_itself(pod: Pod, ended: Mapping[str, Any] | None) -> bool:
    """Say whether the command ended before anybody told the pod to."""
    asked = asked_at(pod)
    if asked is None:
        return not _taken(pod.get("status") or {})
    at = _time((ended or {}).get("finishedAt"))
    return at is not None and at < asked


def asked_at(pod: Pod) -> datetime | None:
    """Return when the pod was told to end: its deletion's time is when the grace is over."""
    until = _time(pod["metadata"].get("deletionTimestamp"))
    grace = int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    return until - timedelta(seconds=grace) if until else None


def _never_ran(pod: Pod) -> tuple[str, str]:
    """Return why the command of a pod that is over never ran, and the cause in a word."""
    status = pod.get("status") or {}
    for each in status.get("initContainerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            return _of_code(ended)
    if status.get("reason") == names.NO_OPERATOR:
        return STOPPED_EARLY, "operator"
    if said := status.get("message") or status.get("reason"):
        return f"The node refused the pod: {_said(said)}.", ""
    return (STOPPED_EARLY, "") if is_leaving(pod) else ("The pod ended unseen.", "")


def _of_code(ended: Mapping[str, Any]) -> tuple[str, str]:
    """Read the last words of the container that brings code: a cause, and a sentence."""
    cause, _, sentence = str(ended.get("message") or "").partition("\n")
    if sentence and re.fullmatch(r"[a-z_]{1,16}", cause):
        return sentence.strip()[:DETAIL_AT_MOST], cause
    said = _said(ended.get("message") or ended.get("reason"))
    return f"The code could not be brought: {said}.", "code_away"


def _taken(status: Mapping[str, Any]) -> str:
    """Return who else ended the pod, in a sentence; blank: nobody said so."""
    if status.get("reason") == "Evicted":
        return f"The node evicted the pod: {_said(status.get('message'))}."
    for condition in status.get("conditions") or ():
        # Our own order never is one of these: it deletes.
        if condition["type"] == "DisruptionTarget" and condition.get("status") == "True":
            said = _said(condition.get("message") or condition.get("reason"))
            return f"The cluster ended the pod: {said}."
    return ""


def _cause(ended: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if ended.get("reason") == "OOMKilled":
        return "oom"
    evicted = status.get("reason") == "Evicted" and "memory" in str(status.get("message", "")).lower()
    return "oom" if evicted else ""


def _commit(pod: Pod) -> str:
    """Return the commit that the container which brought the code told as its last words."""
    for each in (pod.get("status") or {}).get("initContainerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated") or {}
        found = re.fullmatch(r"commit ([0-9a-f]{40,64})\s*", str(ended.get("message") or ""))
        if found and ended.get("exitCode") == 0:
            return found[1]
    return ""


def _main(pod: Pod) -> Mapping[str, Any]:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        if each["name"] == names.MAIN:
            return each.get("state") or {}
    return {}


def _containers(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _states(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (each.get("state") or {} for each in _containers(status))


def _said(words: object) -> str:
    text = " ".join(str(words or "it does not say why").split()).rstrip(".")
    return text[: DETAIL_AT_MOST - 120]


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
