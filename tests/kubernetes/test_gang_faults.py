"""Gangs as MPIJobs while calls fail, controllers die, and hosts or the API server are away: none lost, none twice."""

import pytest

from cluster.kubernetes import gang_orders, unseen, watch
from cluster.models import Card, Host, Instance
from jobs import endings, services
from jobs.models import Attempt, Policy, Strike
from tests.kubernetes.conftest import Kube
from tests.kubernetes.floor import Floor, gang, phases, rest
from tests.kubernetes.test_trouble import silence
from tests.world import World


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


@pytest.mark.parametrize("moment", ["just made", "seen", "away for long"])
def test_a_kind_that_is_not_served_for_a_moment_loses_no_gang_that_has_no_pods_yet(
    world: World, floor: Floor, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(unseen, "CONFIRM_S", 0.2)
    if moment == "away for long":
        monkeypatch.setattr(watch, "AWAY_S", 0.5)
    monkeypatch.setattr(watch, "ABSENT_S", 0.5)
    floor.without_operator()
    gangs = floor.kube.controllers[0]._gangs
    task = gang(world, "sleep 0.3", 2)
    with monkeypatch.context() as late:
        if moment == "just made":
            late.setattr(gangs._jobs, "_take", lambda event: None)  # the watch tells it late
        floor.kube.until(lambda: phases(task) == ["starting"] * 2 and floor.jobs())
        assert bool(gangs._made.all_but([])) == (moment == "just made")
        floor.kube.server.unserved.add("kubeflow.org")
        floor.kube.server.cut()
        floor.kube.until(lambda: gangs._jobs.is_denied)
    rest(floor, 2)
    assert (phases(task), floor.kube.leased(), gangs.is_served()) == (
        ["starting"] * 2,
        16,
        moment != "away for long",
    )
    assert floor.kube.controllers[0].trouble() == ""
    floor.kube.server.unserved.clear()
    floor.operates = True
    floor.kube.state(task, "succeeded", 60)
    floor.settle()
    assert [kind for kind, _ in floor.kube.server.store.created].count("mpijobs") == 1
    assert (floor.starts(task), task.attempts.count()) == (1, 1)


def test_a_gang_that_is_stopped_while_its_kind_is_not_served_has_its_cards_until_that_is_back(
    world: World, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor.without_operator()
    task = gang(world, "true", 2)
    floor.kube.until(lambda: phases(task) == ["starting"] * 2 and floor.jobs())
    floor.kube.server.unserved.add("kubeflow.org")
    floor.kube.server.cut()
    floor.kube.until(lambda: floor.kube.controllers[0]._gangs._jobs.is_denied)
    services.stop(task, world.user("ann"))
    rest(floor, 2)
    task.refresh_from_db()
    assert (task.state, floor.kube.leased()) == ("stopping", 16)
    deletions = [call for call in floor.kube.server.calls if call[0] == "DELETE" and "mpijobs" in call[1]]
    assert len(deletions) <= 10  # it is not asked for without a pause
    floor.kube.server.unserved.clear()
    floor.kube.state(task, "stopped", 40)
    floor.settle()
    assert floor.starts(task) == 0


def test_a_kind_that_an_api_server_denies_while_it_begins_is_not_taken_for_absent(
    world: World, floor: Floor
) -> None:
    floor.without_operator()
    task = gang(world, "true", 2)
    floor.kube.until(lambda: phases(task) == ["starting"] * 2 and floor.jobs())
    floor.kube.controllers.pop().stop()
    floor.kube.server.unserved.add("kubeflow.org")
    floor.kube.control()
    rest(floor, 1)
    assert (phases(task), floor.kube.leased()) == (["starting"] * 2, 16)
    floor.kube.server.unserved.clear()
    floor.operates = True
    floor.kube.state(task, "succeeded", 60)
    floor.settle()
    assert (floor.starts(task), task.attempts.count()) == (1, 1)


def test_without_its_operator_a_gang_is_given_up_at_its_deadline_and_begun_again_with_the_same_cards(
    world: World, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    Policy.objects.update_or_create(
        pk=1, defaults={"values": {"start_deadline_s": 2.0, "pull_up_backoff_s": 0.0}}
    )
    monkeypatch.setattr(gang_orders, "OPERATOR_S", 0.5)
    floor.without_operator()
    task = gang(world, "sleep 0.3", 4, retry_limit=1)
    floor.kube.until(lambda: phases(task) == ["starting"] * 4)

    def again() -> bool:
        assert len(floor.jobs()) <= 1
        assert floor.kube.leased() in {0, 32}
        return task.attempts.count() == 2

    floor.kube.until(again, 60)
    first = task.attempts.get(number=1)
    assert said(first) == "The cluster's MPI operator took no notice of it"
    assert b"The MPI operator of the cluster has done nothing yet" in floor.kube.log(task)
    task.refresh_from_db()
    assert (task.avoid_hosts, Strike.objects.count()) == ([], 0)
    Policy.objects.update(values={})
    floor.operates = True
    floor.kube.state(task, "succeeded", 60)
    floor.settle()
    assert (floor.starts(task), task.attempts.count()) == (1, 2)


@pytest.mark.parametrize("every", [False, True])
def test_an_image_that_cannot_be_had_ends_the_whole_gang_with_its_reason_and_frees_the_cards(
    world: World, floor: Floor, every: bool
) -> None:
    floor.kube.controllers[0]._troubles._limits["image"] = 1.0
    floor.kube.fleet.images["nobody/nothing:1"] = "not found"
    config = {"image_full_name": "nobody/nothing:1", "exec_start_in_all_mpi_pods": every}
    task = gang(world, "sleep 60", 2, needs="container", config=config)
    floor.kube.until(lambda: phases(task) == ["starting"] * 2)
    assert (len(floor.jobs()), floor.kube.leased()) == (0 if every else 1, 16)
    floor.kube.state(task, "failed", 60)
    assert "The image nobody/nothing:1 cannot be had: not found." in said(task.attempts.get())
    assert task.attempts.get().outcome_code == "image_failed"
    floor.settle()
    assert floor.starts(task) == 0
    assert b"[taiji] The image nobody/nothing:1 cannot be had: not found." in floor.kube.log(task)


def said(attempt: Attempt) -> str:
    return endings.sentence(attempt.outcome_code, attempt.outcome_args)
