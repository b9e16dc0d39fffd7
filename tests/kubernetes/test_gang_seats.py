"""The MPIJob of a gang, and which of its pods is which member; pure."""

import gzip
import uuid
from dataclasses import replace
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cluster.kubernetes import affinity, gang_job, gang_seats, names, pods, seen
from cluster.kubernetes.seat import Seat
from tests.kubernetes import schemas, test_pods

JSON = dict[str, Any]
CRD = schemas.FOLDER / "mpijob-crd-v2beta1.yaml.gz"
WAITS = {"wait_for_go": True, "hosts": [{"name": f"h{n}", "address": "", "cards": 2} for n in range(3)]}


def members(**changes: Any) -> list[pods.Member]:
    """Return three members, of whom the first alone has something to run."""
    made = [
        test_pods.member(rank, **WAITS, **changes, **({"command": None} if rank else {})) for rank in range(3)
    ]
    return [replace(one, id=uuid.UUID(int=one.rank), node=f"gpu-{one.rank}") for one in made]


def job(**changes: Any) -> JSON:
    return gang_job.job(members(**changes), test_pods.OPTIONS)


def template(role: str, **changes: Any) -> JSON:
    found: JSON = job(**changes)["spec"]["mpiReplicaSpecs"][role]["template"]
    return found


def env(role: str) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in template(role)["spec"]["containers"][0]["env"]}


def strict_schema() -> JSON:
    if not CRD.is_file():
        pytest.skip(f"the recorded schema is not at {CRD}")
    with gzip.open(CRD) as file:
        version = yaml.safe_load(file)["spec"]["versions"][0]
    found: JSON = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


@pytest.mark.parametrize("changes", [{}, {"container": test_pods.CONTAINER}, test_pods.CODE])
def test_the_operators_own_schema_knows_every_field(changes: JSON) -> None:
    schema = schemas._strict(strict_schema())
    found = Draft202012Validator(schema).iter_errors(job(**changes)["spec"])
    assert [f"{list(error.absolute_path)}: {error.message[:200]}" for error in found] == []


@pytest.mark.parametrize("role", ["Launcher", "Worker"])
@pytest.mark.parametrize("changes", [{}, {"container": test_pods.CONTAINER}, test_pods.CODE])
def test_its_templates_are_pods_that_a_real_api_server_knows(role: str, changes: JSON) -> None:
    made = template(role, **changes)
    body = {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {**made["metadata"], "name": "x"}}
    try:
        assert schemas.faults(body) == []
    except schemas.Absent as absent:
        pytest.skip(str(absent))


def test_its_name_follows_from_the_attempt_and_no_field_of_it_belongs_to_one_member() -> None:
    made = job()
    assert made == job()
    assert made["metadata"]["name"] == "taiji-70"
    assert names.BUSINESS not in made["metadata"]["labels"]  # that would be one that people bring
    for role in ("Launcher", "Worker"):
        labels = template(role)["metadata"]["labels"]
        assert not labels.keys() & {names.INSTANCE, names.RANK, names.HOST, names.BROUGHT}
        assert "restartPolicy" not in template(role)["spec"]


def test_the_launcher_has_cards_and_the_first_host_and_the_workers_one_each_of_the_others() -> None:
    made = job()["spec"]
    workers = made["mpiReplicaSpecs"]["Worker"]
    assert (made["runLauncherAsWorker"], made["slotsPerWorker"], workers["replicas"]) == (True, 2, 2)
    cards = [
        template(role)["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
        for role in ("Launcher", "Worker")
    ]
    assert cards == ["2", "2"]
    assert nodes_of(template("Launcher")) == ["gpu-0"]
    assert nodes_of(template("Worker")) == ["gpu-1", "gpu-2"]
    apart = template("Worker")["spec"]["affinity"]["podAntiAffinity"][affinity.REQUIRED]
    mates = apart[0]["labelSelector"]["matchLabels"].items()
    assert mates <= template("Worker")["metadata"]["labels"].items()
    assert not mates <= template("Launcher")["metadata"]["labels"].items()


def nodes_of(made: JSON) -> list[str]:
    terms = made["spec"]["affinity"]["nodeAffinity"][affinity.REQUIRED]["nodeSelectorTerms"]
    return [value for term in terms for one in term["matchFields"] for value in one["values"]]


def test_members_know_the_launcher_by_name_and_workers_who_they_are_by_their_node() -> None:
    for role in ("Launcher", "Worker"):
        assert env(role)["MASTER_ADDR"] == "taiji-70-launcher.taiji-70.tasks.svc"
        assert env(role)["TAIJI_HOSTS"] == ""  # comes with the word to start
    assert env("Launcher")["RANK"] == "0"
    assert "RANK" not in env("Worker")
    seats = [f"gpu-{rank}/{rank}/{uuid.UUID(int=rank)}" for rank in (1, 2)]
    assert env("Worker")["TAIJI_SEATS"].split() == seats


def test_one_end_ends_it_and_nobody_but_us_removes_its_pods() -> None:
    assert job()["spec"]["runPolicy"] == {"backoffLimit": 0, "cleanPodPolicy": "None", "suspend": False}
    assert job()["metadata"]["finalizers"] == [names.FINALIZER]


def test_cards_that_are_called_otherwise_on_another_host_do_not_fit_one_template() -> None:
    same = members()
    assert gang_job.fits(same)
    assert not gang_job.fits([*same[:2], replace(same[2], resources={"nvidia.com/mig-1g.10gb": 2})])


def seats(*phases: str) -> list[Seat]:
    """Return members 0, 1, … on gpu-0, gpu-1, … in these phases."""
    return [
        Seat(
            id=uuid.UUID(int=rank),
            gang=70,
            rank=rank,
            host=rank + 1,
            node=f"gpu-{rank}",
            phase=phase,
            wanted=True,
        )
        for rank, phase in enumerate(phases)
    ]


def made_pod(
    name: str, node: str = "", *, role: str = "worker", go: bool = False, leaving: bool = False
) -> JSON:
    """Return a pod as the operator makes it."""
    metadata: JSON = {
        "name": name,
        "uid": name,
        "labels": {names.GANG: "70", names.ROLE: role, names.WAITS: "yes"},
    }
    if go:
        metadata["annotations"] = {names.GO: "hosts"}
    if leaving:
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {"phase": "Pending"}}


JOB = {"metadata": {"name": "taiji-70", "namespace": "tasks"}, "spec": job()["spec"]}


def names_by_rank(
    rows: list[Seat], its: list[JSON], job: JSON | None = JOB
) -> tuple[dict[int, str], list[str]]:
    found, strays = gang_seats.seated(rows, job, its)
    return {seat.rank: pod["metadata"]["name"] for seat, pod in found.items()}, [
        one["metadata"]["name"] for one in strays
    ]


def test_a_worker_is_whose_node_it_is_on_and_the_launcher_the_first() -> None:
    its = [made_pod("w-0", "gpu-2"), made_pod("w-1", "gpu-1"), made_pod("l", "gpu-0", role="launcher")]
    assert names_by_rank(seats("starting", "starting", "starting"), its) == ({0: "l", 1: "w-1", 2: "w-0"}, [])
    found, _ = gang_seats.seated(seats("running", "running", "gone"), None, [made_pod("w-0", "gpu-2")])
    [(seat, pod)] = found.items()
    labels = names.labels_of(pod)
    assert (labels[names.INSTANCE], labels[names.RANK], labels[names.HOST]) == (str(seat.id), "2", "3")


def test_those_without_a_node_stand_for_those_without_a_pod() -> None:
    its = [made_pod("w-0"), made_pod("w-1", "gpu-1"), made_pod("l", role="launcher")]
    assert names_by_rank(seats("starting", "starting", "pending"), its) == ({0: "l", 1: "w-1", 2: "w-0"}, [])


def test_a_member_without_a_pod_waits_for_the_operator_until_its_mpijob_leaves() -> None:
    rows = seats("pending", "running", "ready")
    assert names_by_rank(rows, []) == ({0: "taiji-70"}, [])  # the others had one: it is lost
    found, _ = gang_seats.seated(rows, JOB, [])
    assert [seen.seen(pod).phase for pod in found.values()] == ["starting"]
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    gone = {**JOB, "metadata": {**JOB["metadata"], **leaving}}
    found, _ = gang_seats.seated(rows, gone, [])
    [ended] = [seen.seen(pod) for pod in found.values()]
    assert (ended.phase, ended.by_itself, ended.detail) == (
        "gone",
        False,
        "It was stopped before it started.",
    )
    assert names_by_rank(rows, [], None) == ({}, [])


def test_a_pod_that_was_made_in_the_place_of_one_that_ran_is_nobodys() -> None:
    rows = seats("running", "running", "running")
    its = [
        made_pod("new", "gpu-1"),
        made_pod("w", "gpu-2", go=True),
        made_pod("l", "gpu-0", role="launcher", go=True),
    ]
    assert names_by_rank(rows, its) == ({0: "l", 2: "w"}, ["new"])


def test_a_pod_on_a_node_of_no_member_is_nobodys() -> None:
    assert names_by_rank(seats("starting", "starting"), [made_pod("w", "gpu-9")])[1] == ["w"]
    assert names_by_rank([], [made_pod("w", "gpu-1")], None) == ({}, ["w"])


def test_the_host_file_is_known_once_every_member_has_its_place() -> None:
    rows = seats("ready", "ready", "ready")
    its = [made_pod("w-0", "gpu-2"), made_pod("l", "gpu-0", role="launcher")]
    found, _ = gang_seats.seated(rows, JOB, its)
    assert gang_seats.host_lines(found, JOB) == ""
    found, _ = gang_seats.seated(rows, JOB, [*its, made_pod("w-1", "gpu-1")])
    assert gang_seats.host_lines(found, JOB).splitlines() == [
        f"{name}.taiji-70.tasks.svc slots=2" for name in ("l", "w-1", "w-0")
    ]
