"""Pods and nodes that are not well: what becomes of tasks, and what people are told."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from cluster import host_events, inventory, sync
from cluster.kubernetes import nodes
from cluster.models import Card, Host, HostEvent, Instance
from cluster.reports import Report
from jobs import endings, services
from jobs.models import Strike, Task
from tests.kubernetes.conftest import JSON, Kube, node
from tests.world import World

SLEEP = {"start_cmd": "sleep 60"}


@pytest.fixture
def ready(world: World, kube: Kube) -> Kube:
    """Return a cluster with two nodes that the platform knows."""
    world.business("ads", P40=16)
    kube.add(node("gpu-1"))
    kube.add(node("gpu-2"))
    kube.control()
    kube.until(lambda: Card.objects.filter(state="ok").count() == 16)
    return kube


def ended(task: Task) -> tuple[str, JSON]:
    """Return how the task's last attempt ended."""
    attempt = task.attempts.latest("number")
    return attempt.outcome_code, attempt.outcome_args


def test_an_image_that_cannot_be_had_holds_cards_only_for_its_time(
    world: World, ready: Kube, settings: Settings
) -> None:
    for controller in ready.controllers:
        controller._troubles._limits["image"] = 1.0
    ready.fleet.images["nobody/nothing:1"] = "not found"
    Host.objects.update(offers=["container"])
    task = world.task(
        hosts=2, cards=8, needs="container", config={"image_full_name": "nobody/nothing:1", **SLEEP}
    )
    ready.until(lambda: Instance.objects.filter(phase="starting").count() == 2)
    task.refresh_from_db()
    assert task.state == "starting"
    ready.state(task, "failed")
    code, args = ended(task)
    assert code == "image_failed"
    assert args["detail"] == "The image nobody/nothing:1 cannot be had: not found."
    ready.settle()
    assert ready.leased() == 0
    assert b"[taiji] The image nobody/nothing:1 cannot be had: not found." in ready.log(task)


def test_a_pod_that_finds_no_place_is_given_up_with_what_the_scheduler_says(
    world: World, ready: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "outside_use", lambda pods: {})  # bound before ours, and not seen in time
    for name in ("gpu-1", "gpu-2"):
        ready.other_pod(f"other-{name}", name, 8)
    task = world.task(cards=8, config=SLEEP)
    ready.state(task, "failed")
    code, args = ended(task)
    assert code == "no_place"
    assert "Insufficient nvidia.com/gpu" in args["detail"]
    assert endings.sentence(code, args).startswith("Its cluster found no place for its pod on gpu-")
    assert "ask for less" in endings.advice(code)
    ready.settle()
    assert ready.leased() == 0
    assert not Strike.objects.exists()


def test_what_the_cluster_refuses_fails_with_its_words(world: World, ready: Kube) -> None:
    for controller in ready.controllers:
        controller._orders._options = replace(ready.options, priority_class="unknown")
    task = world.task(config=SLEEP)
    ready.state(task, "failed")
    code, args = ended(task)
    assert code == "start_failed"
    assert args["detail"] == "The cluster does not take the pod: no PriorityClass with name unknown was found"
    assert ready.leased() == 0


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"taiji.io/instance": "mine", "taiji.io/mpi-role": "worker"},
        {"taiji.io/region": "SZ", "taiji.io/attempt": "1", "taiji.io/mpijob": "a-uid"},
    ],
    ids=["nobody's", "like ours", "another platform's"],
)
def test_cards_that_others_use_are_not_offered(world: World, ready: Kube, labels: dict[str, str]) -> None:
    pod = ready.other_pod("notebook", "gpu-1", 5, **labels)
    ready.until(lambda: Card.objects.filter(host__name="gpu-1", state="external").count() == 5)
    ready.calls.delete(pod, grace_s=0)
    ready.until(lambda: not Card.objects.filter(state="external").exists())


def test_a_cordoned_node_takes_no_starts_and_says_why(world: World, ready: Kube) -> None:
    ready.change("gpu-1", lambda one: one["spec"].update(unschedulable=True))
    ready.until(lambda: Host.objects.get(name="gpu-1").state == "cordoned")
    host = Host.objects.get(name="gpu-1")
    assert host_events.reason(host.state_reason, host.state_args) == "The node is cordoned in its cluster."
    ready.change("gpu-1", lambda one: one["spec"].pop("unschedulable"))
    ready.until(lambda: Host.objects.get(name="gpu-1").state == "ready")


def test_what_changes_of_a_node_is_heard_by_the_watch_and_listed_by_nobody(world: World, ready: Kube) -> None:
    nodes = ready.controllers[0]._nodes
    listed = nodes.lists
    ready.change("gpu-1", lambda one: one["spec"].update(unschedulable=True))
    ready.change("gpu-1", lambda one: one["status"]["allocatable"].update({"nvidia.com/gpu": "6"}))
    ready.change("gpu-1", lambda one: one["metadata"]["labels"].update({"taiji.io/gpu-type": "P40-old"}))
    changed = Card.objects.filter(host__node="gpu-1", gpu_type__name="P40-old")
    ready.until(lambda: (changed.count(), changed.filter(state="broken").count()) == (8, 2))
    assert Host.objects.get(node="gpu-1").state == "cordoned"
    assert nodes.lists == listed


def test_a_fault_in_one_host_keeps_no_other_from_being_heard(
    world: World, ready: Kube, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take, bad = sync.take, Host.objects.get(node="gpu-1")

    def stumbles(host: Host, report: Report, now: datetime) -> sync.Desired:
        if host.pk == bad.pk:
            raise ValueError("a word that nobody expected")
        return take(host, report, now)

    monkeypatch.setattr(sync, "take", stumbles)
    for name in ("gpu-1", "gpu-2"):
        ready.change(name, lambda one: one["status"]["allocatable"].update({"nvidia.com/gpu": "6"}))
    ready.until(lambda: Card.objects.filter(host__node="gpu-2", state="broken").count() == 2)
    assert not Card.objects.filter(host=bad, state="broken").exists()
    assert f"host {bad.name} was left as it is" in caplog.text
    assert "a word that nobody expected" in caplog.text
    monkeypatch.undo()
    ready.until(lambda: Card.objects.filter(host=bad, state="broken").count() == 2)


def test_what_operators_said_of_a_host_stands_whatever_its_cluster_says(world: World, ready: Kube) -> None:
    Host.objects.filter(name="gpu-1").update(state="cordoned", state_reason="fan")
    ready.change("gpu-1", lambda one: one["spec"].update(taints=[{"key": "team", "effect": "NoSchedule"}]))
    ready.change("gpu-2", lambda one: one["spec"].update(taints=[{"key": "team", "effect": "NoSchedule"}]))
    ready.until(lambda: Host.objects.get(name="gpu-2").state == "cordoned")
    for name in ("gpu-1", "gpu-2"):
        ready.change(name, lambda one: one["spec"].pop("taints"))
    ready.until(lambda: Host.objects.get(name="gpu-2").state == "ready")
    assert Host.objects.get(name="gpu-1").state == "cordoned"


def test_cards_that_stop_working_are_broken_and_come_back(world: World, ready: Kube) -> None:
    ready.change("gpu-1", lambda one: one["status"].update(allocatable={"nvidia.com/gpu": "6"}))
    ready.until(lambda: Card.objects.filter(host__name="gpu-1", state="broken").count() == 2)
    ready.change("gpu-1", lambda one: one["status"].update(allocatable={"nvidia.com/gpu": "8"}))
    ready.until(lambda: not Card.objects.filter(state="broken").exists())


def path_of(pod: JSON) -> str:
    """Return the path of a pod."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def alive(kube: Kube) -> int:
    """Return of how many pods something runs."""
    return sum(pod.process is not None for pod in kube.fleet.running.values())


def silence(name: str) -> None:
    """Let a host have been silent for long."""
    long_ago = timezone.now() - timedelta(hours=1)
    Host.objects.filter(name=name).update(last_seen_at=long_ago)


def test_a_task_on_a_node_that_is_away_is_neither_over_nor_are_its_cards_free(
    world: World, ready: Kube
) -> None:
    task = world.task(cards=8, config=SLEEP)
    ready.state(task, "running")
    name = Instance.objects.get().host.name
    ready.fleet.silent.add(name)
    ready.change(name, lambda one: one["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}]))
    for _ in range(5):
        ready.step()
    silence(name)
    ready.until(lambda: Host.objects.get(name=name).lost_since)
    task.refresh_from_db()
    assert (task.state, ready.leased()) == ("running", 8)
    # Stopped meanwhile: the end is seen when the node is back, and not before.
    services.stop(task, world.user("ann"))
    for _ in range(5):
        ready.step()
    assert ready.leased() == 8
    ready.fleet.silent.clear()
    ready.change(name, lambda one: one["status"].update(conditions=[{"type": "Ready", "status": "True"}]))
    ready.state(task, "stopped")
    ready.until(lambda: Host.objects.get(name=name).lost_since is None)
    assert ready.leased() == 0
    ready.settle()


def test_what_was_given_up_is_ended_before_its_node_takes_work_again(world: World, ready: Kube) -> None:
    task = world.task(cards=8, pull_up=True, wanted_class="elastic", config=SLEEP)
    ready.state(task, "running")
    name = Instance.objects.get().host.name
    ready.fleet.silent.add(name)
    ready.change(name, lambda one: one["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}]))
    for _ in range(5):
        ready.step()
    silence(name)
    ready.until(lambda: Host.objects.get(name=name).lost_since)
    long_ago = timezone.now() - timedelta(hours=1)
    Host.objects.filter(name=name).update(lost_since=long_ago)
    ready.until(lambda: task.attempts.count() == 2)
    ready.state(task, "running", 40)
    assert alive(ready) == 2  # the old one still runs where nobody sees it
    ready.fleet.silent.clear()
    ready.change(name, lambda one: one["status"].update(conditions=[{"type": "Ready", "status": "True"}]))
    ready.until(lambda: Host.objects.get(name=name).lost_since is None, 40)
    assert alive(ready) == 1
    task.refresh_from_db()
    assert task.state == "running"


def test_a_node_that_left_its_cluster_is_a_removed_host_until_it_is_back(world: World, ready: Kube) -> None:
    ready.remove("gpu-2")
    ready.until(lambda: Host.objects.get(name="gpu-2").state == "removed")
    host = Host.objects.get(name="gpu-2")
    assert host_events.reason(host.state_reason, host.state_args) == "The node is gone from its cluster."
    ready.add(node("gpu-2"))
    ready.until(lambda: Host.objects.get(name="gpu-2").state == "ready")
    assert HostEvent.objects.filter(host=host, code="restore").exists()


def test_a_node_without_a_plugin_for_a_while_loses_no_task(world: World, ready: Kube) -> None:
    task = world.task(cards=8, config=SLEEP)
    ready.state(task, "running")
    name = Instance.objects.get().host.name
    ready.change(name, lambda one: one["status"].update(capacity={}, allocatable={}))
    ready.until(lambda: Card.objects.filter(host__name=name, state="missing").count() == 8)
    room = {"nvidia.com/gpu": "8"}
    ready.change(name, lambda one: one["status"].update(capacity=room, allocatable=room))
    ready.until(lambda: not Card.objects.exclude(state="ok").exists())
    task.refresh_from_db()
    assert task.state == "running"


def test_a_pod_that_was_deleted_by_force_leaves_a_lost_attempt(world: World, ready: Kube) -> None:
    task = world.task(cards=8, config=SLEEP)
    ready.state(task, "running")
    path = path_of(ready.pods()[0])
    ready.calls.patch(path, {"metadata": {"finalizers": []}})
    ready.calls.delete(path, grace_s=0)
    ready.state(task, "failed")
    assert ended(task)[0] == "pod_lost"
    assert ready.leased() == 0


def test_a_pod_that_somebody_deletes_still_says_how_it_ended(world: World, ready: Kube) -> None:
    task = world.task(
        cards=8, config={"start_cmd": "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"}
    )
    ready.state(task, "running")
    ready.until(lambda: ready.log(task) == b"up\n")
    ready.calls.delete(path_of(ready.pods()[0]))
    ready.state(task, "failed")
    assert ended(task)[0] == "ended_from_outside", ended(task)
    ready.settle()


def test_a_node_of_a_name_that_another_host_has_gets_one_of_its_own(world: World, kube: Kube) -> None:
    world.host("gpu-1", 2, region="BJ")
    kube.add(node("gpu-1"))
    kube.control()
    kube.until(lambda: Host.objects.filter(node="gpu-1").exists())
    assert Host.objects.get(node="gpu-1").name == "gpu-1.SZ"


def test_no_agent_may_register_as_a_node(world: World, ready: Kube) -> None:
    with pytest.raises(inventory.NameTaken):
        inventory.register("gpu-1", "SZ", "10.0.0.9")
