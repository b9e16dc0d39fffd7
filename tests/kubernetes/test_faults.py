"""An API server that is busy, away, or has lost the place: nothing is lost, nothing is done twice."""

import json
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kubernetes import work
from cluster.kubernetes.controller import Controller
from cluster.kubernetes.watch import Mirror
from cluster.models import Card, Host, Instance
from jobs import services
from jobs.engine import passes
from jobs.models import Task
from tests.kubernetes.conftest import Kube, node
from tests.world import World

COUNT = {"start_cmd": "echo one >>$TAIJI_STORAGE/starts; sleep 0.3"}
SLEEP = {"start_cmd": "echo one >>$TAIJI_STORAGE/starts; sleep 60"}


@pytest.fixture
def ready(world: World, kube: Kube) -> Kube:
    """Return a cluster with a node that the platform knows."""
    world.business("ads", P40=16)
    kube.add(node("gpu-1"))
    kube.control()
    kube.until(lambda: Card.objects.filter(state="ok").count() == 8)
    return kube


def starts(kube: Kube, task: Task) -> int:
    """Return how often commands of the task's business were started."""
    file = kube.storage / f"business-{task.business_id}" / "starts"
    return len(file.read_text().split()) if file.exists() else 0


@pytest.mark.parametrize(("status", "times"), [(429, 3), (500, 2), (503, 2), (0, 2), (-1, 1)])
def test_a_creation_that_fails_for_a_while_is_made_once(
    world: World, ready: Kube, status: int, times: int
) -> None:
    """-1: it is done, but nobody hears so; 0: the connection ends before."""
    headers = {"Retry_After": "1"} if status == 429 else {}
    ready.server.fail(status, method="POST", path="/pods", times=times, **headers)
    task = world.task(config=COUNT)
    ready.state(task, "succeeded", 30)
    assert starts(ready, task) == 1
    ready.settle()
    created = [thing for resource, thing in ready.server.store.created if resource == "pods"]
    assert len({thing["metadata"]["name"] for thing in created}) == 1
    assert ready.leased() == 0


@pytest.mark.parametrize("status", [429, 500, -1])
def test_a_deletion_that_fails_for_a_while_comes_true(world: World, ready: Kube, status: int) -> None:
    task = world.task(config=SLEEP)
    ready.state(task, "running")
    ready.server.fail(status, method="DELETE", path="/pods", times=2)
    services.stop(task, world.user("ann"))
    ready.state(task, "stopped", 30)
    ready.settle()


def test_a_watch_that_is_cut_goes_on_where_it_was(world: World, ready: Kube) -> None:
    task = world.task(config=SLEEP)
    ready.state(task, "running")
    lists = [mirror.lists for mirror in mirrors(ready.controllers[0])]
    for _ in range(3):
        ready.server.cut()
        time.sleep(0.3)
        ready.step()
    services.stop(task, world.user("ann"))
    ready.state(task, "stopped")
    assert [mirror.lists for mirror in mirrors(ready.controllers[0])] == lists
    assert starts(ready, task) == 1


def test_a_watch_whose_place_is_lost_lists_anew_and_misses_nothing(world: World, ready: Kube) -> None:
    task = world.task(config=SLEEP)
    ready.state(task, "running")
    lists = sum(mirror.lists for mirror in mirrors(ready.controllers[0]))
    ready.server.store.compact()
    ready.server.cut()
    services.stop(task, world.user("ann"))
    ready.state(task, "stopped", 30)
    assert sum(mirror.lists for mirror in mirrors(ready.controllers[0])) > lists
    ready.settle()


def mirrors(controller: Controller) -> tuple[Mirror, ...]:
    """Return what the controller mirrors."""
    return (controller._nodes, controller._pods, controller._others)


def test_an_api_server_that_is_away_for_a_while_loses_and_doubles_nothing(world: World, ready: Kube) -> None:
    running = world.task(cards=2, config=SLEEP)
    ready.state(running, "running")
    ends_meanwhile = world.task(cards=2, config={"start_cmd": "sleep 2; exit 5"})
    ready.state(ends_meanwhile, "running")
    ready.server.close()
    comes_meanwhile = world.task(cards=2, config=COUNT)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        ready.step()
        time.sleep(0.1)
    assert ready.controllers[0].trouble() != ""
    ends_meanwhile.refresh_from_db()
    assert ends_meanwhile.state == "running"  # nobody can know
    assert ready.leased() == 6
    ready.server.open()
    ready.state(comes_meanwhile, "succeeded", 40)
    ready.state(ends_meanwhile, "failed", 30)
    assert ends_meanwhile.attempts.get().outcome_args["exit_code"] == 5
    running.refresh_from_db()
    assert (running.state, starts(ready, running)) == ("running", 2)
    assert ready.controllers[0].trouble() == ""


def test_an_api_server_that_is_away_for_minutes_makes_hosts_lost_and_nothing_else(
    world: World, ready: Kube
) -> None:
    """Longer than hosts may be silent, and than the lease lasts."""
    running = world.task(cards=2, config=SLEEP)
    ready.state(running, "running")
    ready.server.close()
    [controller] = ready.controllers
    controller.lease._until = 0.0
    Host.objects.update(last_seen_at=timezone.now() - timedelta(minutes=10))
    ready.until(lambda: Host.objects.get().lost_since is not None)
    stopped, comes = world.task(cards=2, config=SLEEP), world.task(cards=2, config=COUNT)
    services.stop(stopped, world.user("ann"))
    for _ in range(10):
        assert not controller.round()
        ready.step()
    running.refresh_from_db()
    assert (running.state, ready.leased()) == ("running", 2)
    assert "lease is not held" in controller.trouble()
    ready.server.open()
    ready.until(lambda: Host.objects.get().lost_since is None, 60)
    ready.state(comes, "succeeded", 60)
    running.refresh_from_db()
    stopped.refresh_from_db()
    assert (running.state, stopped.state, starts(ready, running)) == ("running", "stopped", 2)
    assert Instance.objects.filter(phase="running").count() == 1


@pytest.mark.parametrize("status", [403, 422])
def test_a_pod_that_is_refused_is_not_asked_for_again_and_its_task_says_why(
    world: World, ready: Kube, status: int
) -> None:
    ready.server.fail(status, method="POST", path="/pods", times=9)
    task = world.task(config=COUNT)
    ready.state(task, "failed", 30)
    attempt = task.attempts.get()
    assert (attempt.outcome_code, attempt.outcome_args["detail"]) == (
        "start_failed",
        "The cluster does not take the pod: injected by the test",
    )
    assert ready.server.faults[0].times == 8
    assert (starts(ready, task), ready.leased()) == (0, 0)


def test_a_name_that_an_older_pod_still_has_is_waited_for(world: World, ready: Kube) -> None:
    """As 409 says: what is on its way out keeps its name until it is gone."""
    task = world.task(cards=8, config=COUNT)
    passes.run()
    name = f"taiji-{task.attempts.get().pk}-0"
    held = {"name": name, "finalizers": ["test/held"], "labels": {"taiji.io/instance": "another"}}
    spec = {"containers": [{"name": "x", "image": "x"}], "nodeName": "gpu-9"}
    path = f"{ready._folder}/pods"
    ready.fleet.silent.add("gpu-9")
    ready.calls.create(path, {"apiVersion": "v1", "kind": "Pod", "metadata": held, "spec": spec})
    ready.calls.delete(f"{path}/{name}")
    ready.until(lambda: sum(call == ("POST", path) for call in ready.server.calls) >= 2)
    assert Instance.objects.get().phase == "pending"
    ready.calls.patch(f"{path}/{name}", {"metadata": {"finalizers": []}})
    ready.calls.delete(f"{path}/{name}", grace_s=0)
    ready.state(task, "succeeded", 30)
    assert starts(ready, task) == 1


def test_what_ended_while_no_controller_was_there_is_known_to_the_next(world: World, ready: Kube) -> None:
    task = world.task(config={"start_cmd": "echo early; sleep 1; echo late; exit 4"})
    ready.state(task, "running")
    ready.until(lambda: ready.log(task) == b"early\n")
    ready.controllers.pop().stop()
    ready.until(lambda: all(pod["status"]["phase"] == "Failed" for pod in ready.pods()))
    ready.control()
    ready.state(task, "failed")
    assert task.attempts.get().outcome_args["exit_code"] == 4
    ready.settle()
    assert ready.log(task) == b"early\nlate\n"


def test_a_second_controller_waits_and_takes_over_from_one_that_ended(world: World, ready: Kube) -> None:
    second = ready.control()
    for _ in range(20):
        ready.step()
        time.sleep(0.02)
    assert not second.lease.is_held()
    task = world.task(config=SLEEP)
    ready.state(task, "running")
    ready.controllers.remove(first := ready.controllers[0])
    first.stop()
    services.stop(task, world.user("ann"))
    ready.state(task, "stopped")
    assert second.lease.is_held()
    assert starts(ready, task) == 1


def test_two_controllers_that_both_believe_to_be_the_one_start_nothing_twice(
    world: World, ready: Kube
) -> None:
    second = ready.control()
    second.lease.check = lambda: None  # type: ignore[method-assign]
    second.lease.is_held = lambda: True  # type: ignore[method-assign]
    second._calls.guard = lambda: None
    tasks = [world.task(cards=1, config=COUNT) for _ in range(4)]
    for task in tasks:
        ready.state(task, "succeeded", 40)
    assert starts(ready, tasks[0]) == 4
    ready.settle()
    assert ready.leased() == 0


def test_a_controller_without_the_lease_changes_nothing(world: World, ready: Kube) -> None:
    controller = ready.controllers[0]
    controller.lease.check()
    lost = world.task(config=SLEEP)
    controller.lease._until = 0.0
    controller.lease.tend = lambda: False  # type: ignore[method-assign]
    before = len(ready.server.store.created)
    for _ in range(10):
        assert not controller.round()
        ready.step()
    lost.refresh_from_db()
    assert (lost.state, len(ready.server.store.created)) == ("starting", before)


@pytest.mark.parametrize("step", ["before", "secret", "pod", "owner"])
def test_a_start_that_broke_off_anywhere_is_finished_by_the_next_controller(
    world: World, ready: Kube, step: str
) -> None:
    ready.controllers.pop().stop()
    task = services.submit(
        world.user("ann", "ads"),
        {"business_flag": "ads", "GPUName": "P40", "env": {"KEY": {"value": "x", "secret": True}}, **COUNT},
    )
    fails = {"secret": ("POST", "/secrets"), "pod": ("POST", "/pods"), "owner": ("PATCH", "/secrets")}
    if step in fails:
        method, path = fails[step]
        ready.server.fail(-1, method=method, path=path)
    first = ready.control()
    if step != "before":
        ready.until(lambda: any(fault.times == 0 for fault in ready.server.faults))
    ready.controllers.remove(first)
    first.stop()
    last = ready.control()
    ready.state(task, "succeeded", 30)
    assert starts(ready, task) == 1
    ready.settle()
    last._swept_at = -1e9
    ready.until(lambda: not ready.things("secrets"))


def test_a_task_that_is_stopped_before_its_pod_is_made_never_runs(
    world: World, ready: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "DOUBT_S", 2.0)
    ready.server.fail(500, method="POST", path="/pods", times=3)
    task = world.task(config=COUNT)
    ready.until(lambda: ready.server.faults[0].times < 3)
    services.stop(task, world.user("ann"))
    ready.state(task, "stopped", 60)
    assert starts(ready, task) == 0
    assert ready.leased() == 0


def test_cards_of_a_pod_that_takes_long_to_leave_are_not_given_away(world: World, ready: Kube) -> None:
    ready.fleet.slow_exit_s = 2.0
    first = world.task(cards=8, wanted_class="elastic", user="bob", config=SLEEP)
    ready.state(first, "running")
    second = world.task(cards=8, config=COUNT)
    ready.until(lambda: Instance.objects.filter(phase="ending").exists())
    began = time.monotonic()
    while time.monotonic() < began + 1:
        ready.step()
        second.refresh_from_db()
        assert second.state == "queued"
        assert ready.leased() == 8
        time.sleep(0.05)
    ready.state(second, "succeeded", 30)


def test_a_pod_of_nobody_is_ended_before_anything_starts_on_its_host(world: World, ready: Kube) -> None:
    task = world.task(cards=8, config=SLEEP)
    ready.state(task, "running")
    pod = ready.pods()[0]
    stray = json.loads(
        json.dumps(pod).replace(
            pod["metadata"]["labels"]["taiji.io/instance"], "0" * 8 + "-0000-4000-8000-" + "0" * 12
        )
    )
    del stray["status"], stray["spec"]["nodeName"]
    services.stop(task, world.user("ann"))
    ready.state(task, "stopped")
    ready.settle()
    ready.fleet.slow_exit_s = 1.0
    with ready.server.store.lock:
        metadata = {**stray["metadata"], "name": "stray"}
        ready.server.store.create(
            "pods", ready.namespace, {**stray, "metadata": metadata, "status": {"phase": "Pending"}}
        )
    while not ready.fleet.running:
        time.sleep(0.02)
    next_one = world.task(cards=8, config=COUNT)
    ready.state(next_one, "succeeded", 40)
    names = [thing["metadata"]["name"] for kind, thing in ready.server.store.created if kind == "pods"]
    assert names.index("stray") < len(names) - 1
    ready.settle()
