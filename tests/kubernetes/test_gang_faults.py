"""Gangs as MPIJobs while calls fail, controllers die, and hosts or the API server are away: none lost, none twice."""

import pytest

from cluster.models import Card, Host, Instance
from jobs import services
from tests.kubernetes.conftest import Kube
from tests.kubernetes.floor import Floor, gang, phases, rest
from tests.kubernetes.test_trouble import silence
from tests.world import World

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def floor(world: World, kube: Kube) -> Floor:
    """Return a cluster with the operator, of which a business may use all cards."""
    world.business("ads", P40=32)
    return Floor(kube)


@pytest.mark.parametrize(("status", "times"), [(429, 2), (500, 2), (0, 1), (-1, 1)])
def test_a_creation_that_fails_for_a_while_makes_one_mpijob(
    world: World, floor: Floor, status: int, times: int
) -> None:
    """-1: it is done, but nobody hears so; 0: the connection ends before."""
    headers = {"Retry_After": "1"} if status == 429 else {}
    floor.kube.server.fail(status, method="POST", path="/mpijobs", times=times, **headers)
    task = gang(world, "sleep 0.3", 2)
    floor.kube.state(task, "succeeded", 60)
    floor.settle()
    made = [thing for kind, thing in floor.kube.server.store.created if kind == "mpijobs"]
    assert len(made) == 1
    assert floor.starts(task) == 1


def test_what_the_cluster_refuses_fails_with_its_words(world: World, floor: Floor) -> None:
    floor.kube.server.fail(422, method="POST", path="/mpijobs")
    task = gang(world, "true", 2)
    floor.kube.state(task, "failed", 40)
    assert "The cluster does not take the MPIJob: injected" in task.attempts.get().outcome_args["detail"]
    floor.kube.controllers[0]._swept_at = -1e9
    floor.settle()


@pytest.mark.parametrize("step", ["before", "secret", "job", "owner", "held", "told", "deleted"])
def test_what_broke_off_anywhere_is_finished_by_the_next_controller(
    world: World, floor: Floor, step: str
) -> None:
    floor.kube.controllers.pop().stop()
    document = {
        "business_flag": "ads",
        "GPUName": "P40",
        "host_num": 2,
        "host_gpu_num": 8,
        "start_cmd": "echo one >>$TAIJI_STORAGE/starts; sleep 0.5",
        "env": {"KEY": {"value": "x", "secret": True}},
    }
    fails = {
        "secret": ("POST", "/secrets"),
        "job": ("POST", "/mpijobs"),
        "owner": ("PATCH", "/secrets"),
        "held": ("PATCH", "/pods/"),
        "told": ("PATCH", "-launcher-"),
        "deleted": ("DELETE", "/mpijobs"),
    }
    first = floor.kube.control()
    if step in fails:
        method, path = fails[step]
        floor.kube.server.fail(-1, method=method, path=path)
    task = services.submit(world.user("ann", "ads"), document)
    if step != "before":
        floor.kube.until(lambda: any(fault.times == 0 for fault in floor.kube.server.faults), 40)
    floor.kube.controllers.remove(first)
    first.stop()
    last = floor.kube.control()
    floor.kube.state(task, "succeeded", 60)
    last._swept_at = -1e9
    floor.settle()
    assert floor.starts(task) == 1
    assert floor.kube.log(task) == b""


def test_two_controllers_that_both_believe_to_be_the_one_start_a_gang_once(
    world: World, floor: Floor
) -> None:
    second = floor.kube.control()
    second.lease.check = lambda: None  # type: ignore[method-assign]
    second.lease.is_held = lambda: True  # type: ignore[method-assign]
    second._calls.guard = lambda: None
    tasks = [gang(world, "sleep 0.3", 2) for _ in range(2)]
    for task in tasks:
        floor.kube.state(task, "succeeded", 60)
    floor.settle()
    assert floor.starts(tasks[0]) == 2


def test_an_api_server_that_is_away_for_a_while_costs_a_gang_nothing(world: World, floor: Floor) -> None:
    running, ends = gang(world, "sleep 60", 2), gang(world, "sleep 2; exit 5", 2)
    for task in (running, ends):
        floor.kube.state(task, "running", 40)
    floor.kube.server.close()
    rest(floor, 4)
    ends.refresh_from_db()
    assert (ends.state, floor.kube.leased()) == ("running", 32)
    floor.kube.server.open()
    floor.kube.state(ends, "failed", 40)
    assert ends.attempts.get().outcome_args["exit_code"] == 5
    running.refresh_from_db()
    assert (running.state, phases(running), floor.starts(running)) == ("running", ["running"] * 2, 2)
    services.stop(running, world.user("ann"))
    floor.kube.state(running, "stopped", 40)
    floor.settle()


def test_a_host_of_a_gang_that_is_away_is_neither_over_nor_are_its_cards_free(
    world: World, floor: Floor
) -> None:
    task = gang(world, "sleep 60", 2)
    floor.kube.state(task, "running", 40)
    away = Instance.objects.get(rank=1).host.node
    floor.kube.fleet.silent = {away}
    floor.kube.change(away, lambda one: one["status"]["conditions"][0].update(status="Unknown"))
    rest(floor, 0.5)
    silence(away)
    floor.kube.until(lambda: Host.objects.get(node=away).lost_since)
    task.refresh_from_db()
    assert (task.state, floor.kube.leased()) == ("running", 16)
    services.stop(task, world.user("ann"))
    rest(floor, 1)
    assert phases(task) == ["gone", "running"]
    assert (
        Card.objects.filter(leases__released_at=None, leases__isnull=False).exclude(host__node=away).count()
        == 8
    )
    floor.kube.fleet.silent = set()
    floor.kube.change(away, lambda one: one["status"]["conditions"][0].update(status="True"))
    floor.kube.state(task, "stopped", 40)
    floor.settle()
