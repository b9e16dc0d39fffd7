"""MPIJobs that people bring with kubectl: queued, started, evicted, pulled up like any task."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import yaml

from cluster.models import BroughtJob, Card
from jobs import brought, services
from jobs.models import Task
from jobs.values import Invalid
from tests.kubernetes.conftest import WITHIN_S, Kube, node
from tests.kubernetes.mpi_operator import KIND, Operator
from tests.kubernetes.server import Fault
from tests.kubernetes.test_deploy import given, used
from tests.kubernetes.test_platform import FOLDER as MANIFESTS
from tests.world import World

JSON = dict[str, Any]
FOLDER = f"{KIND}/namespaces/research/mpijobs"


class Desk:
    """A cluster with the MPI operator, on which people work with kubectl."""

    def __init__(self, kube: Kube, *nodes: str) -> None:
        self.kube, self.operator = kube, Operator(kube.calls)
        kube.server  # noqa: B018  # a real cluster has an operator of its own
        kube.options = replace(kube.options, mpijobs=True)
        for name in nodes:
            kube.add(node(name))
        kube.control()
        kube.until(lambda: Card.objects.count() == 8 * len(nodes))

    def step(self) -> None:
        self.operator.tick()
        brought.adopt()

    def until(self, met: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        def stepped() -> Any:
            self.step()
            return met()

        return self.kube.until(stepped, within_s)

    def state(self, task: Task, state: str, within_s: float = 30) -> None:
        def met() -> bool:
            task.refresh_from_db()
            return task.state == state

        self.until(met, within_s)

    def apply(self, job: JSON) -> None:
        self.kube.calls.create(FOLDER, job)

    def job(self, name: str = "train") -> JSON:
        return self.kube.calls.get(f"{FOLDER}/{name}")

    def task(self, name: str = "train") -> Task:
        def found() -> Task | None:
            row = BroughtJob.objects.filter(name=name, deleted=False).first()
            return Task.objects.filter(pk=row.task or 0).first() if row else None

        task: Task = self.until(found)
        return task

    def pods(self) -> list[JSON]:
        return self.kube.calls.list("/api/v1/namespaces/research/pods")[0]

    def live_pods(self) -> list[JSON]:
        return [pod for pod in self.pods() if pod["status"].get("phase") not in {"Succeeded", "Failed"}]

    def says_suspended(self) -> bool:
        conditions = self.job()["status"]["conditions"]
        return {"type": "Suspended", "status": "True"} in conditions

    def said(self, name: str = "train") -> dict[str, str]:
        found: dict[str, str] = self.job(name)["metadata"]["annotations"]
        return found

    def events(self) -> list[str]:
        found = self.kube.calls.list("/api/v1/namespaces/research/events")[0]
        return [event["reason"] for event in found]


def mpijob(
    name: str = "train",
    *,
    workers: int = 1,
    cards: int = 8,
    launcher: str = "sleep 0.5",
    business: str = "ads",
    suspend: bool = True,
    **said: str,
) -> JSON:
    """Return an MPIJob as its owner writes it; `said` are annotations, with _ for -."""
    notes = {f"taiji.io/{key.replace('_', '-')}": value for key, value in {"owner": "ann", **said}.items()}
    limits = {"limits": {"nvidia.com/gpu": str(cards)}} if cards else {}
    trap = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
    worker = {"name": "w", "image": "x", "command": ["sh", "-c", trap], "resources": limits}
    run = {"name": "l", "image": "x", "command": ["sh", "-c", launcher]}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "labels": {"taiji.io/business": business}, "annotations": notes},
        "spec": {
            "runPolicy": {"suspend": suspend},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": {"containers": [run]}}},
                "Worker": {"replicas": workers, "template": {"spec": {"containers": [worker]}}},
            },
        },
    }


def test_it_waits_as_a_task_runs_where_it_was_planned_and_says_how_it_ended(world: World, kube: Kube) -> None:
    world.business("ads", P40=16)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1", "gpu-2")
    desk.apply(mpijob(workers=2, launcher="sleep 1"))
    task = desk.task()
    assert (task.user.username, task.business.flag, task.wanted_class) == ("ann", "ads", "high")
    assert (task.host_num, task.host_gpu_num, task.task_flag) == (2, 8, "train")
    desk.state(task, "running")
    assert kube.leased() == 16
    workers = [pod for pod in desk.pods() if "worker" in pod["metadata"]["name"]]
    assert sorted(pod["spec"]["nodeName"] for pod in workers) == ["gpu-1", "gpu-2"]
    assert not Card.objects.exclude(state="ok").exists()  # ours, not somebody else's
    desk.until(lambda: desk.said().get("taiji.io/state") == "running")
    assert desk.said()["taiji.io/task"] == str(task.pk)
    desk.state(task, "succeeded")
    desk.until(lambda: desk.said()["taiji.io/state"] == "succeeded")
    assert kube.leased() == 0
    assert {"TaskRunning", "TaskSucceeded"} <= set(desk.events())
    with pytest.raises(Invalid) as refused:  # what runs is in the cluster: there is nothing to run again here
        services.retry(task, task.user)
    assert [fault.field for fault in refused.value.faults] == ["mpijob"]
    for _ in range(5):
        desk.step()
        kube.step()
    assert Task.objects.count() == 1  # what is over does not come again


def test_an_elastic_one_is_suspended_for_a_high_task_and_runs_again_when_that_is_over(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=8)
    world.user("bob", "ads")
    desk = Desk(kube, "gpu-1")
    said: dict[str, Any] = {"owner": "bob", "class": "elastic", "pull_up": "true"}
    desk.apply(mpijob(launcher="sleep 60", **said))
    elastic = desk.task()
    desk.state(elastic, "running")
    kube.fleet.slow_exit_s = 2.0
    high = world.task(cards=8, config={"start_cmd": "sleep 0.5"})
    desk.state(elastic, "evicting")
    desk.until(lambda: desk.job()["spec"]["runPolicy"]["suspend"])
    desk.until(desk.says_suspended)
    assert desk.live_pods()  # the condition says so at once; the cards are free when the pods are gone
    assert kube.leased() == 8
    assert high.attempts.count() == 0
    desk.until(lambda: high.attempts.count() == 1)
    assert not desk.live_pods()
    kube.fleet.slow_exit_s = 0.0
    desk.state(high, "succeeded")
    desk.state(elastic, "running", 40)
    assert elastic.attempts.count() == 2
    assert elastic.attempts.get(number=1).outcome == "evicted"
    services.stop(elastic, world.user("bob"))
    desk.state(elastic, "stopped")
    assert desk.job()["spec"]["runPolicy"]["suspend"]
    assert kube.leased() == 0


def test_a_deleted_one_ends_its_task_when_its_pods_are_gone(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(launcher="sleep 60"))
    task = desk.task()
    desk.state(task, "running")
    kube.fleet.slow_exit_s = 1.0
    kube.calls.delete(f"{FOLDER}/train")
    desk.state(task, "stopping")
    assert kube.leased() == 8
    desk.state(task, "stopped")
    assert not desk.live_pods()
    assert kube.leased() == 0


def test_one_that_runs_though_nobody_gave_it_cards_is_suspended(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    world.task(cards=8, config={"start_cmd": "sleep 60"})
    kube.until(lambda: kube.leased() == 8)
    desk.apply(mpijob(suspend=False))
    desk.until(lambda: desk.job()["spec"]["runPolicy"]["suspend"])
    assert desk.task().state == "queued"


def test_a_launcher_that_fails_fails_the_task_with_its_code(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(launcher="exit 3"))
    task = desk.task()
    desk.state(task, "failed")
    attempt = task.attempts.get()
    assert (attempt.outcome_code, attempt.outcome_args["exit_code"]) == ("exit_code", 3)
    assert kube.leased() == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"business": "nobody"}, "business_flag"),
        ({"owner": "eve"}, "Nobody here is called eve"),
        ({"owner": ""}, "taiji.io/owner"),
        ({"cards": 0}, "nvidia.com/gpu"),
        ({"workers": 0}, "no workers"),
        ({"class": "fast"}, "one of high, elastic, auto"),
        ({"cards": 16, "workers": 2}, "host_gpu_num"),
    ],
)
def test_one_that_cannot_be_a_task_is_told_why_and_never_half_made(
    world: World, kube: Kube, change: dict[str, Any], said: str
) -> None:
    world.business("ads", P40=64)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(**change))
    desk.until(lambda: desk.said().get("taiji.io/state") == "refused")
    assert said in desk.said()["taiji.io/reason"]
    assert desk.events() == ["TaskRefused"]
    assert desk.job()["spec"]["runPolicy"]["suspend"]
    assert not Task.objects.exists()


def test_one_without_a_launcher_or_whose_slots_differ_is_refused(world: World, kube: Kube) -> None:
    world.business("ads", P40=64)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    job = mpijob()
    del job["spec"]["mpiReplicaSpecs"]["Launcher"]
    job["spec"]["slotsPerWorker"] = 4
    desk.apply(job)
    desk.until(lambda: desk.said().get("taiji.io/state") == "refused")
    assert "no launcher" in desk.said()["taiji.io/reason"]
    assert "slotsPerWorker is 4" in desk.said()["taiji.io/reason"]
    assert not Task.objects.exists()


def test_a_controller_that_is_killed_changes_nothing_for_what_runs(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(launcher="sleep 60"))
    task = desk.task()
    desk.state(task, "running")
    before = {pod["metadata"]["uid"] for pod in desk.live_pods()}
    dead = kube.controllers.pop()
    dead.lease._ended.set()  # it gives nothing back
    dead.stop()
    kube.control()
    desk.until(lambda: kube.controllers[0].round())
    for _ in range(10):
        desk.step()
        kube.step()
    assert {pod["metadata"]["uid"] for pod in desk.live_pods()} == before
    assert task.attempts.count() == 1
    services.stop(task, world.user("ann"))
    desk.state(task, "stopped")
    assert not desk.live_pods()


@pytest.mark.parametrize("status", [409, 429, 500, 0, -1])
def test_a_start_and_a_stop_whose_calls_fail_come_true_once(world: World, kube: Kube, status: int) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    fits: Callable[[str, str], bool] = lambda method, path: (  # noqa: E731  # not those of the operator
        method == "PATCH" and path.endswith("/mpijobs/train")
    )
    kube.server.faults.append(Fault(fits=fits, status=status, times=2))
    desk.apply(mpijob(launcher="sleep 60"))
    task = desk.task()
    desk.state(task, "running")
    assert task.attempts.count() == 1
    kube.server.faults.append(Fault(fits=fits, status=status, times=2))
    services.stop(task, world.user("ann"))
    desk.state(task, "stopped")
    assert not desk.live_pods()
    assert kube.leased() == 0


def test_the_controller_may_do_with_them_what_it_does_and_nothing_else(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(launcher="sleep 60"))
    task = desk.task()
    desk.state(task, "running")
    services.stop(task, world.user("ann"))
    desk.state(task, "stopped")
    desk.until(lambda: "TaskStopped" in desk.events())
    anywhere = {
        ("" if where == "research" else where, *right)
        for where, *right in used(kube.server.by_controller, kube.namespace)
    }
    (role, _binding) = yaml.safe_load_all((MANIFESTS / "mpijobs" / "rights.yaml").read_text())
    ours = {
        ("", group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert anywhere - given() == ours
