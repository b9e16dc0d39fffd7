"""What is written into an MPIJob, and what it says of the members of an attempt; pure."""

import copy
import gzip
import uuid
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cluster.kubernetes import mpijobs, seen
from cluster.kubernetes.seat import Seat
from tests.kubernetes import schemas
from tests.kubernetes.desk import mpijob
from tests.kubernetes.objects import merge

JSON = dict[str, Any]
CRD = schemas.FOLDER / "mpijob-crd-v2beta1.yaml.gz"


def made(uid: str = "u-1", **said: Any) -> JSON:
    """Return an MPIJob as the API server has it."""
    job = mpijob(**said)
    job["metadata"] |= {"namespace": "research", "uid": uid, "resourceVersion": "5"}
    return job


def started(gang: int = 7, *nodes: str, **said: Any) -> JSON:
    """Return one that was told to run."""
    job = made(**said)
    patched: JSON = merge(job, mpijobs.starting(job, gang, nodes or ("gpu-1",), ("nvidia.com/gpu",)))
    return patched


def seat(*, node: str = "gpu-1", rank: int = 0, gang: int = 7, wanted: bool = True) -> Seat:
    """Return a member of attempt 7."""
    return Seat(
        id=uuid.UUID(int=rank),
        gang=gang,
        rank=rank,
        host=1,
        node=node,
        phase="running",
        wanted=wanted,
    )


def pod(role: str = "worker", node: str = "gpu-1", phase: str = "Running", code: int | None = None) -> JSON:
    """Return a pod of attempt 7."""
    labels = {"taiji.io/mpijob": "u-1", "taiji.io/attempt": "7", "taiji.io/mpi-role": role}
    status: JSON = {"phase": phase}
    if code is not None:
        status["containerStatuses"] = [{"name": "l", "state": {"terminated": {"exitCode": code}}}]
    return {"metadata": {"name": role, "labels": labels}, "spec": {"nodeName": node}, "status": status}


def says(job: JSON | None, **conditions: str) -> JSON | None:
    """Return the job with what the operator says of it."""
    if job is None:
        return None
    listed = [{"type": name, "status": status} for name, status in conditions.items()]
    return {**job, "status": {"conditions": listed}}


def suspended(job: JSON) -> JSON:
    """Return the job told to be suspended."""
    found: JSON = merge(copy.deepcopy(job), mpijobs.suspending())
    return found


def test_what_is_started_stays_where_it_was_planned_and_leaves_no_workers_behind() -> None:
    job = started(7, "gpu-1", "gpu-2", workers=2)
    assert not mpijobs.is_suspended(job)
    assert mpijobs.attempt_of(job) == 7
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = worker["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    # A field takes one value, so each node is a term of its own: any of them will do.
    assert [term["matchFields"][0]["values"] for term in terms] == [["gpu-1"], ["gpu-2"]]
    (apart,) = worker["spec"]["affinity"]["podAntiAffinity"][required]
    mates = apart["labelSelector"]["matchLabels"]
    assert mates.items() <= worker["metadata"]["labels"].items()
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    assert "metadata" not in launcher  # it would come to no pod: the operator has made its Job before
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    assert suspended(job)["spec"]["runPolicy"] == {"suspend": True, "cleanPodPolicy": "All"}
    again = merge(copy.deepcopy(job), mpijobs.starting(job, 8, ["gpu-3"], ("nvidia.com/gpu",)))
    tolerations = again["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["tolerations"]
    assert len(tolerations) == 3  # not once more at each start
    assert mpijobs.attempt_of(again) == 8


def test_what_is_written_into_one_is_right_by_the_operators_own_schema() -> None:
    if not CRD.is_file():
        pytest.skip(f"the schema of MPIJobs is not at {CRD}: set TAIJI_SHARED to the folder that holds it")
    with gzip.open(CRD) as file:
        schema = yaml.safe_load(file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    strict = Draft202012Validator(schemas._strict(schema))
    job = started(7, "gpu-1", "gpu-2", workers=2)
    job["metadata"] = {}  # the API server's own, of which the schema says nothing
    assert [error.message for error in strict.iter_errors(job)] == []
    job["spec"]["runPolicy"]["suspend"] = "no"
    assert list(strict.iter_errors(job))


RUNS: JSON = {"name": "l", "state": {"running": {}}}
TABLE: list[tuple[str, JSON | None, list[JSON], bool, str]] = [
    ("no worker is there yet", started(), [], True, "starting"),
    ("its worker is pulled", started(), [pod(phase="Pending")], True, "starting"),
    ("its worker runs", started(), [pod()], True, "running"),
    ("another's worker runs", started(), [pod(node="gpu-2")], True, "starting"),
    (
        "suspended, not yet by the operator",
        says(suspended(started()), Suspended="False"),
        [],
        False,
        "ending",
    ),
    ("its worker is left", says(suspended(started()), Suspended="True"), [pod()], False, "ending"),
    ("another's is left", says(suspended(started()), Suspended="True"), [pod(node="gpu-2")], False, "ending"),
    (
        "the launcher is left",
        says(suspended(started()), Suspended="True"),
        [pod("launcher")],
        False,
        "ending",
    ),
    ("nothing is left", says(suspended(started()), Suspended="True"), [pod(phase="Failed")], False, "gone"),
    (
        "evicted by its node, which has not ended it yet",
        says(suspended(started()), Suspended="True"),
        [{**pod(), "status": {"phase": "Failed", "containerStatuses": [RUNS]}}],
        False,
        "ending",
    ),
    ("ended, its worker is left", says(started(), Succeeded="True"), [pod()], True, "ending"),
    ("ended", says(started(), Succeeded="True"), [pod("launcher", phase="Succeeded")], True, "gone"),
    ("deleted, its task is not stopped yet", None, [], True, "ending"),
    ("deleted, its worker is left", None, [pod()], False, "ending"),
    ("deleted", None, [], False, "gone"),
]


@pytest.mark.parametrize(("case", "job", "pods", "wanted", "phase"), TABLE, ids=[row[0] for row in TABLE])
def test_a_member_is_gone_only_when_no_pod_of_its_attempt_is_left(
    case: str, job: JSON | None, pods: list[JSON], wanted: bool, phase: str
) -> None:
    assert seen.seen(mpijobs.member(seat(wanted=wanted), job, pods)).phase == phase


def test_the_end_of_the_launcher_is_that_of_the_members() -> None:
    well = seen.seen(mpijobs.member(seat(), says(started(), Succeeded="True"), []))
    assert (well.exit_code, well.by_itself) == (0, True)
    badly = says(started(), Failed="True")
    failed = seen.seen(mpijobs.member(seat(), badly, [pod("launcher", phase="Failed", code=3)]))
    assert (failed.exit_code, failed.by_itself) == (3, True)
    assert seen.seen(mpijobs.member(seat(), badly, [])).exit_code == 1  # its pod is no more
    told = seen.seen(mpijobs.member(seat(wanted=False), says(suspended(started()), Suspended="True"), []))
    assert (told.exit_code, told.by_itself) == (None, False)


def test_an_attempt_of_which_the_job_runs_a_later_one_is_judged_by_its_pods_alone() -> None:
    later = started(8)
    assert seen.seen(mpijobs.member(seat(wanted=False), later, [pod()])).phase == "ending"
    assert seen.seen(mpijobs.member(seat(wanted=False), later, [])).phase == "gone"


def test_a_launcher_is_of_the_attempt_in_which_it_was_made() -> None:
    job = made()
    job["metadata"]["creationTimestamp"] = "2026-01-01T00:00:10Z"
    times = {"of-another-job": "05", "earlier": "20", "first": "41", "again": "42"}
    pods = [
        {"metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:{at}Z", "labels": {"x": "y"}}}
        for name, at in times.items()
    ]
    patched = merge(job, mpijobs.starting(job, 7, ["gpu-1"], (), after="2026-01-01T00:00:20Z"))
    found = mpijobs.launchers(patched, pods)
    assert [one["metadata"]["name"] for one in found] == ["first", "again"]
    marks = {"x": "y", "taiji.io/mpi-role": "launcher", "taiji.io/attempt": "7"}
    assert [one["metadata"]["labels"] for one in found] == [marks, marks]
    first = merge(job, mpijobs.starting(job, 6, ["gpu-1"], ()))
    assert len(mpijobs.launchers(first, pods)) == 3
