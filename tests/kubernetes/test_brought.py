"""MPIJobs that people bring with kubectl: queued, started, evicted, pulled up like any task."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml

from cluster.kubernetes import calls, telling
from cluster.models import BroughtNews, Card
from jobs import brought, services
from jobs.models import Task
from quotas.models import DefaultGpuType, Quota
from tests.kubernetes.conftest import Kube, node
from tests.kubernetes.desk import FOLDER, Desk, mpijob
from tests.kubernetes.server import Fault
from tests.kubernetes.test_deploy import given, used
from tests.kubernetes.test_platform import FOLDER as MANIFESTS
from tests.patience import WITHIN_S
from tests.world import World


def test_it_waits_as_a_task_runs_where_it_was_planned_and_says_how_it_ended(world: World, kube: Kube) -> None:
    world.business("ads", P40=16)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1", "gpu-2")
    desk.apply(mpijob(workers=2, launcher="sleep 4"))
    task = desk.task()
    assert (task.user.username, task.business.flag, task.wanted_class) == ("ann", "ads", "high")
    assert (task.host_num, task.host_gpu_num, task.task_flag) == (2, 8, "train")
    desk.state(task, "running")
    assert kube.leased() == 16
    workers = [pod for pod in desk.pods() if "worker" in pod["metadata"]["name"]]
    assert sorted(pod["spec"]["nodeName"] for pod in workers) == ["gpu-1", "gpu-2"]
    assert not Card.objects.exclude(state="ok").exists()  # ours, not somebody else's
    desk.until(lambda: desk.said().get("reason") == "Running")
    assert (desk.said()["status"], desk.said()["message"]) == ("True", f"Task {task.pk} is running.")
    desk.state(task, "succeeded")
    desk.until(lambda: desk.said()["reason"] == "Succeeded")
    assert kube.leased() == 0
    desk.until(lambda: desk.events() == ["TaskQueued", "TaskStarted", "TaskRunning", "TaskSucceeded"])
    assert "gpu-1" in desk.told()[1]["message"]
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


def test_a_launcher_starts_when_all_its_workers_are_ready_after_an_eviction_too(
    world: World, kube: Kube
) -> None:
    """The operator makes it before there are any, and lets it run as soon as the job may."""
    world.business("ads", P40=32)
    world.user("bob", "ads")
    desk = Desk(kube, *(f"gpu-{number}" for number in range(4)))
    worker = (
        f"{FOLDER.replace('/apis/kubeflow.org/v2beta1', '/api/v1').replace('mpijobs', 'pods')}/train-worker-2"
    )
    kube.fleet.unready.add(worker)
    said: dict[str, Any] = {"class": "elastic", "pull_up": "true"}
    job = mpijob(workers=4, launcher="sleep 60", **said)
    launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["schedulingGates"] = [{"name": "other.io/x"}]
    desk.admit(job, "bob")
    task = desk.task()

    def launchers() -> list[tuple[list[str], bool]]:
        """Return the gates of the launchers that are there, and whether they have a place."""
        found = (pod["spec"] for pod in desk.pods() if "launcher" in pod["metadata"]["name"])
        return [
            ([gate["name"] for gate in spec.get("schedulingGates", ())], "nodeName" in spec) for spec in found
        ]

    for number in (1, 2):
        desk.until(lambda: sum(is_ready(pod) for pod in desk.pods()) == 3)
        for _ in range(5):
            desk.step()
            kube.step()
        assert launchers() == [(["other.io/x", "taiji.io/workers"], False)]
        kube.fleet.unready.clear()
        desk.until(lambda: launchers() == [(["other.io/x"], False)])
        ungate(kube, desk)
        desk.until(lambda: launchers() == [([], True)])
        assert task.attempts.count() == number
        if number == 1:
            kube.fleet.unready.add(worker)
            high = world.task(cards=8, config={"start_cmd": "sleep 0.5"})
            desk.state(high, "succeeded", 60)
            desk.state(task, "running", 60)


def is_ready(pod: dict[str, Any]) -> bool:
    return {"type": "Ready", "status": "True"} in pod["status"].get("conditions", ())


def ungate(kube: Kube, desk: Desk) -> None:
    """Take the last gate from launchers, which is not ours."""
    for pod in desk.pods():
        if pod["spec"].get("schedulingGates"):
            path = f"/api/v1/namespaces/research/pods/{pod['metadata']['name']}"
            kube.calls.patch(path, {"spec": {"schedulingGates": None}})


def test_a_deleted_one_ends_its_task_when_its_pods_are_gone(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(launcher="sleep 60"))
    task = desk.task()
    desk.state(task, "running")
    assert not Card.objects.filter(state="external").exists()  # its pods are none of others
    kube.fleet.slow_exit_s = 1.0
    kube.calls.delete(f"{FOLDER}/train")
    desk.state(task, "stopping")
    assert kube.leased() == 8
    assert not Card.objects.filter(state="external").exists()
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


def test_owners_who_cannot_be_told_keep_no_task_from_starting_and_ending(
    world: World, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "CALL_S", 10 * WITHIN_S)
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    kube.server.held.add("/events")
    elastic: dict[str, Any] = {"class": "elastic"}
    for number in range(calls.THREADS + 1):
        desk.apply(mpijob(f"job-{number}", **elastic))
    desk.until(lambda: BroughtNews.objects.count() > calls.THREADS)
    desk.until(lambda: sum("/events" in path for _, path in kube.server.calls) == telling.THREADS)
    task = world.task(cards=8, config={"start_cmd": "sleep 60"})
    desk.state(task, "running")
    services.stop(task, world.user("ann"))
    desk.state(task, "stopped")
    kube.server.held.clear()
    desk.until(lambda: not BroughtNews.objects.exists())


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
        ({"business": "nobody"}, "the label taiji.io/business: You belong to no business"),
        ({"owner": "eve"}, "Nobody here is called eve"),
        ({"owner": ""}, "taiji.io/owner"),
        ({"cards": 0}, "nvidia.com/gpu"),
        ({"workers": 0}, "no workers"),
        ({"class": "fast"}, "one of high, elastic, auto"),
        ({"cards": 16, "workers": 2}, "the limit of cards of the workers: Asks 16 cards"),
        ({"priority": "urgent"}, "the annotation taiji.io/priority: "),
    ],
)
def test_one_that_cannot_be_a_task_is_told_why_and_never_half_made(
    world: World, kube: Kube, change: dict[str, Any], said: str
) -> None:
    world.business("ads", P40=64)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(**change))
    desk.until(lambda: desk.said().get("reason") == "Refused")
    assert said in desk.said()["message"]
    desk.until(lambda: desk.events() == ["TaskRefused"])
    assert said in desk.told()[0]["message"]
    assert desk.job()["spec"]["runPolicy"]["suspend"]
    assert not Task.objects.exists()


def test_one_that_was_refused_is_looked_at_again_and_told_so_only_where_that_changes_something(
    world: World, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brought, "LOOK_AGAIN", timedelta(0))
    world.business("ads", P40=8)
    desk = Desk(kube, "gpu-1")
    desk.apply(mpijob(launcher="sleep 60"))
    desk.until(lambda: desk.said().get("reason") == "Refused")
    for _ in range(5):
        desk.step()
        kube.step()
    assert desk.events() == ["TaskRefused"]
    world.user("ann", "ads")
    desk.state(desk.task(), "running")
    desk.until(lambda: desk.said().get("reason") == "Running")


def test_one_that_was_refused_for_what_it_says_is_looked_at_when_it_says_something_else(
    world: World, kube: Kube
) -> None:
    world.business("ads", P40=8)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    said: dict[str, Any] = {"class": "fast"}
    desk.apply(mpijob(launcher="sleep 60", **said))
    desk.until(lambda: desk.said().get("reason") == "Refused")
    kube.calls.patch(f"{FOLDER}/train", {"metadata": {"annotations": {"taiji.io/class": "elastic"}}})
    task = desk.task()
    assert task.wanted_class == "elastic"
    desk.state(task, "running")


def test_one_without_a_launcher_or_whose_slots_differ_is_refused(world: World, kube: Kube) -> None:
    world.business("ads", P40=64)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    job = mpijob()
    del job["spec"]["mpiReplicaSpecs"]["Launcher"]
    job["spec"]["slotsPerWorker"] = 4
    desk.apply(job)
    desk.until(lambda: desk.said().get("reason") == "Refused")
    assert "no launcher" in desk.said()["message"]
    assert "slotsPerWorker is 4" in desk.said()["message"]
    assert not Task.objects.exists()


@pytest.mark.parametrize("workers", [None, {}, {"replicas": 0}], ids=["none", "empty", "no replica"])
@pytest.mark.parametrize("suspend", [True, False], ids=["suspended", "running"])
def test_one_without_workers_is_refused_and_keeps_nothing_else_from_running(
    world: World, kube: Kube, workers: dict[str, Any] | None, suspend: bool
) -> None:
    world.business("ads", P40=64)
    world.user("ann", "ads")
    desk = Desk(kube, "gpu-1")
    job = mpijob(suspend=suspend)
    del job["spec"]["mpiReplicaSpecs"]["Worker"]
    if workers is not None:
        job["spec"]["mpiReplicaSpecs"]["Worker"] = workers
    desk.apply(job)
    desk.until(lambda: desk.said().get("reason") == "Refused")
    kube.state(world.task(config={"start_cmd": "true"}), "succeeded")
    assert Task.objects.count() == 1


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
    desk.admit(mpijob(launcher="sleep 60"))
    task = desk.task()
    desk.until(lambda: any("launcher" in pod["metadata"]["name"] and is_ready(pod) for pod in desk.pods()))
    services.stop(task, world.user("ann"))
    desk.state(task, "stopped")
    desk.until(lambda: "TaskStopped" in desk.events() and desk.said()["reason"] == "Stopped")
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


def test_a_worker_that_failed_is_no_worker_of_the_next_attempt(world: World, kube: Kube) -> None:
    world.business("ads", P40=8)
    world.user("bob", "ads")
    desk = Desk(kube, "gpu-1")
    said: dict[str, Any] = {"owner": "bob", "class": "elastic", "pull_up": "true"}
    job = mpijob(launcher="sleep 60", **said)
    (worker,) = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    worker["command"][-1] = "sleep 2; exit 1"
    desk.apply(job)
    elastic = desk.task()
    desk.state(elastic, "running")
    desk.until(lambda: any(pod["status"]["phase"] == "Failed" for pod in desk.pods()))
    high = world.task(cards=8, config={"start_cmd": "sleep 0.5"})
    desk.state(high, "succeeded", 40)
    desk.state(elastic, "running", 40)
    assert elastic.attempts.count() == 2


def sliced(name: str, slices: int) -> dict[str, Any]:
    """Return a node with one whole card and slices of others."""
    thing = node(name, 1, "NVIDIA-A100-SXM4-40GB")
    thing["status"]["capacity"]["nvidia.com/mig-1g.5gb"] = str(slices)
    thing["status"]["allocatable"]["nvidia.com/mig-1g.5gb"] = str(slices)
    return thing


def test_one_of_slices_runs_on_slices_and_one_of_whole_cards_on_those(world: World, kube: Kube) -> None:
    business = world.business("ads", P40=8)
    world.user("ann", "ads")
    kube.add(sliced("gpu-1", 7))
    desk = Desk(kube)
    kube.until(lambda: Card.objects.count() == 8)
    names = {card.uuid.partition("/")[2]: card.gpu_type for card in Card.objects.select_related("gpu_type")}
    whole, piece = names["gpu/0"], names["mig-1g.5gb/0"]
    assert whole.name != piece.name
    for position, gpu_type in enumerate((piece, whole)):
        Quota.objects.create(business=business, gpu_type=gpu_type, cards=8)
        DefaultGpuType.objects.create(business=business, gpu_type=gpu_type, position=position)
    desk.apply(mpijob("small", cards=2, resource="nvidia.com/mig-1g.5gb", launcher="sleep 60"))
    desk.apply(mpijob("large", cards=1, launcher="sleep 60"))
    for name, gpu_type in (("small", piece), ("large", whole)):
        task = desk.task(name)
        desk.state(task, "running")
        assert task.gpu_types == [gpu_type.pk]
    wrong: dict[str, Any] = {"resource": "nvidia.com/mig-3g.20gb", "cards": 1}
    desk.apply(mpijob("absent", **wrong))
    desk.apply(mpijob("crossed", cards=1, gpu_type=piece.name))
    desk.until(lambda: desk.said("absent").get("reason") == desk.said("crossed").get("reason") == "Refused")
    assert "No host of this cluster has nvidia.com/mig-3g.20gb" in desk.said("absent")["message"]
    assert f"names {piece.name}: as nvidia.com/gpu this cluster has only" in desk.said("crossed")["message"]
