"""What a pod says of its instance, by tables of statuses as clusters write them."""

from typing import Any

import pytest

from cluster.kubernetes.seen import seen, trouble

NOW, LATER = "2026-01-01T00:00:10Z", "2026-01-01T00:00:40Z"
RUNNING = {"running": {"startedAt": NOW}}


def ended(code: int, **more: Any) -> dict[str, Any]:
    """Return the state of a container that ended."""
    return {"terminated": {"exitCode": code, "finishedAt": NOW, "reason": "Error", **more}}


def pod(phase: str, main: Any = None, init: Any = None, **more: Any) -> dict[str, Any]:
    """Return a bound pod; `deleted` is when its grace of 30 s is over, `labels` and `notes` are on it."""
    status: dict[str, Any] = {"phase": phase, **more.pop("status", {})}
    if main is not None:
        status["containerStatuses"] = [{"name": "main", "image": "x:1", "state": main}]
    if init is not None:
        status["initContainerStatuses"] = [{"name": "code", "image": "tools:1", "state": init}]
    metadata: dict[str, Any] = {"labels": more.pop("labels", {}), "annotations": more.pop("notes", {})}
    if deleted := more.pop("deleted", ""):
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    spec = {"nodeName": more.pop("node", "gpu-1")}
    assert not more
    return {"metadata": metadata, "spec": spec, "status": status}


WAITS = {"taiji.io/waits": "yes"}


@pytest.mark.parametrize(
    ("thing", "phase"),
    [
        (pod("Pending", node=""), "starting"),
        (pod("Pending", init=RUNNING), "starting"),
        (pod("Running", RUNNING), "running"),
        (pod("Running", RUNNING, labels=WAITS), "ready"),
        (pod("Running", RUNNING, labels=WAITS, notes={"taiji.io/go": "yes"}), "running"),
        (pod("Running", ended(0)), "running"),  # not over as long as the pod does not say so
        (pod("Running", RUNNING, deleted=LATER), "ending"),
        (pod("Running", ended(0), deleted=LATER), "ending"),
        (pod("Succeeded", ended(0)), "gone"),
        (pod("Failed", ended(1), deleted=LATER), "gone"),
        (pod("Failed", RUNNING), "running"),  # an eviction that says so before it is true
        (pod("Pending", node="", deleted=LATER), "gone"),
        (pod("Unknown", RUNNING), "running"),
    ],
)
def test_a_pod_is_in_the_phase_that_its_processes_are_in(thing: dict[str, Any], phase: str) -> None:
    assert seen(thing).phase == phase


def test_what_a_node_ran_that_is_no_more_is_gone_once_the_cluster_says_so() -> None:
    thing = pod("Failed", RUNNING, deleted=LATER)
    assert seen(thing).phase == "ending"
    assert seen(thing, on_node=False).phase == "gone"


@pytest.mark.parametrize(
    ("thing", "code", "signal", "by_itself", "cause"),
    [
        (pod("Succeeded", ended(0)), 0, None, True, ""),
        (pod("Failed", ended(3)), 3, None, True, ""),
        (pod("Failed", ended(137, signal=9)), None, 9, True, ""),
        (pod("Failed", ended(137, reason="OOMKilled")), 137, None, True, "oom"),
        (pod("Failed", ended(143), deleted="2026-01-01T00:00:35Z"), 143, None, False, ""),
        (pod("Succeeded", ended(0), deleted="2026-01-01T00:05:00Z"), 0, None, True, ""),
        (pod("Failed", ended(0), labels={"taiji.io/idle": "yes"}), None, None, True, ""),
    ],
)
def test_an_end_says_how_and_whether_by_itself(
    thing: dict[str, Any], code: int | None, signal: int | None, by_itself: bool, cause: str
) -> None:
    found = seen(thing)
    assert (found.exit_code, found.exit_signal, found.by_itself, found.cause) == (
        code,
        signal,
        by_itself,
        cause,
    )


def test_an_eviction_by_the_node_is_nothing_that_the_task_did() -> None:
    status = {"reason": "Evicted", "message": "The node was low on resource: memory."}
    found = seen(pod("Failed", ended(137), status=status))
    assert (found.by_itself, found.cause) == (False, "oom")
    assert found.detail == "The node evicted the pod: The node was low on resource: memory."


def test_a_pod_that_the_cluster_preempted_says_so() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "message": "kube-scheduler: preempting"}
    found = seen(pod("Failed", ended(143), status={"conditions": [condition]}))
    assert (found.by_itself, found.detail) == (
        False,
        "The cluster ended the pod: kube-scheduler: preempting.",
    )


def test_what_a_node_refuses_never_ran() -> None:
    status = {"reason": "UnexpectedAdmissionError", "message": "Allocate failed due to no healthy devices"}
    found = seen(pod("Failed", status=status))
    assert (found.exit_code, found.by_itself) == (None, True)
    assert found.detail == "The node refused the pod: Allocate failed due to no healthy devices."


def test_the_last_words_of_who_brings_code_are_the_reason() -> None:
    words = "code\nThere is no branch 'x' at https://git.test/a.git."
    found = seen(pod("Failed", {"waiting": {}}, ended(1, message=words)))
    assert (found.cause, found.detail) == ("code", "There is no branch 'x' at https://git.test/a.git.")
    found = seen(pod("Failed", {"waiting": {}}, ended(137, reason="OOMKilled")))
    assert (found.cause, found.detail) == ("code_away", "The code could not be brought: OOMKilled.")


def test_the_commit_is_known_as_soon_as_it_was_fetched() -> None:
    commit = "a" * 40
    assert seen(pod("Running", RUNNING, ended(0, message=f"commit {commit}"))).commit == commit
    assert seen(pod("Running", RUNNING, ended(0, message="commit nonsense"))).commit == ""


def test_a_verdict_is_the_reason_wherever_the_pod_was() -> None:
    thing = pod("Failed", deleted=LATER, notes={"taiji.io/verdict": "image\nThe image x cannot be had: no."})
    found = seen(thing)
    assert (found.cause, found.detail, found.by_itself) == ("image", "The image x cannot be had: no.", True)


@pytest.mark.parametrize(
    ("reason", "kind", "for_good"),
    [
        ("ImagePullBackOff", "image", False),
        ("ErrImagePull", "image", False),
        ("InvalidImageName", "image", True),
        ("CreateContainerConfigError", "container", False),
        ("ContainerCreating", "", False),
        ("PodInitializing", "", False),
    ],
)
def test_what_keeps_a_pod_is_told_apart_from_what_takes_its_time(
    reason: str, kind: str, for_good: bool
) -> None:
    found = trouble(pod("Pending", {"waiting": {"reason": reason, "message": "why. "}}))
    assert (found.kind, found.for_good) == (kind, for_good) if found else kind == ""


def test_a_pod_without_a_place_says_what_the_scheduler_says() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes.",
    }
    found = trouble(pod("Pending", node="", status={"conditions": [condition]}))
    assert found is not None
    assert found.sentence == "The cluster finds no place for the pod: 0/3 nodes."
