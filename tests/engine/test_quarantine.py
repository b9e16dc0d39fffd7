"""Which failures speak against a host, and when enough do."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from cluster import host_events, host_moves
from cluster.host_states import State
from cluster.models import Host, HostEvent, Instance
from jobs.engine import passes, quarantine
from jobs.engine.quarantine import Failure, guilty
from jobs.models import Attempt, Policy, Strike, Task
from tests.world import World

BROKEN: dict[str, Any] = {
    "exit_code": None,
    "ended_by_itself": True,
    "detail": "The storage /mnt is not there.",
}


def failure(task: int, host: int = 1, user: int = 1, work: str = "", **more: Any) -> Failure:
    """Return that a task failed; each runs something of its own unless `work` says otherwise."""
    facts = {"sure": False, "proven": False, **more}
    return Failure(host=host, task=task, user=user, work=work or f"work of {task}", **facts)


@pytest.mark.parametrize(
    ("failures", "alone", "against"),
    [
        ([failure(1, sure=True), failure(2, sure=True)], True, [1, 2]),
        ([failure(1, sure=True), failure(1, sure=True)], False, [1]),  # one task counts once
        ([failure(1, sure=True, host=2)], False, []),
        ([failure(1), failure(2), failure(3)], False, []),  # one user, who may have a bad day
        ([failure(1), failure(2, user=2), failure(3)], False, [1, 2, 3]),
        ([failure(1), failure(2, user=2)], True, []),  # nobody knows how they would do elsewhere
        ([failure(1), failure(2, user=2), failure(1, host=2)], False, []),  # 1 fails wherever it is
        ([failure(1, proven=True), failure(2, proven=True)], True, [1, 2]),
        ([failure(1, work="w"), failure(2, user=2), failure(3, host=2, work="w", proven=True)], False, [1, 2]),
    ],
)  # fmt: skip
def test_what_speaks_against_a_host(failures: list[Failure], alone: bool, against: list[int]) -> None:
    assert guilty(1, failures, alone=alone) == against


# On the database


@pytest.fixture
def hosts(world: World) -> World:
    """Return a world of four hosts of one card each, h1 the one that is tried first."""
    world.business("ads", P40=16)
    for number in range(1, 5):
        world.host(f"h{number}", 1)
    Policy.objects.create(pk=1, values={"pull_up_backoff_s": 0})
    return world


def fail(world: World, user: str = "ann", host: str = "h1", **said: Any) -> Task:
    """Let one more task fail on a host, as the host says; by default after it ran, with code 1."""
    only = Host.objects.filter(state="ready").exclude(name=host)
    shut = list(only.values_list("pk", flat=True))
    Host.objects.filter(pk__in=shut).update(state="cordoned")
    task = world.task(user=user, config={"start_cmd": f"./{user}-{Task.objects.count()}"})
    passes.run()
    world.host_says(task, "gone", **({"exit_code": 1} | said))
    Host.objects.filter(pk__in=shut).update(state="ready")
    passes.run()
    task.refresh_from_db()
    assert task.state == "failed"
    return task


def state_of(host: str) -> str:
    return Host.objects.get(name=host).state


def test_a_host_that_cannot_start_three_tasks_is_quarantined_and_the_reason_names_them(hosts: World) -> None:
    tasks = [fail(hosts, **BROKEN) for _ in range(2)]
    assert state_of("h1") == "ready"
    tasks.append(fail(hosts, **BROKEN))
    host = Host.objects.get(name="h1")
    said = f"3 tasks failed at start here: {tasks[0].pk}, {tasks[1].pk}, {tasks[2].pk}"
    assert (host.state, host_events.reason(host.state_reason, host.state_args)) == ("quarantined", said)
    event = HostEvent.objects.get(host=host, code="quarantine")
    assert (event.old_state, event.new_state, event.actor) == ("ready", "quarantined", None)
    assert host_events.sentence(event.code, event.args) == said
    later = hosts.task()
    passes.run()
    assert Instance.objects.get(gang=hosts.attempt(later).pk).host.name != "h1"


def test_the_policy_says_how_many_tasks_it_takes_and_0_means_never(hosts: World) -> None:
    Policy.objects.update(values={"quarantine_after": 0})
    for _ in range(4):
        fail(hosts, **BROKEN)
    assert state_of("h1") == "ready"
    Policy.objects.update(values={"quarantine_after": 5})
    fail(hosts, **BROKEN)
    assert state_of("h1") == "quarantined"


def test_one_bad_task_that_fails_on_every_host_quarantines_none(hosts: World) -> None:
    task = hosts.task(retry_limit=9)
    for _ in range(4):
        Task.objects.filter(pk=task.pk).update(ready_at=None)
        passes.run()
        hosts.host_says(task, "gone", exit_code=1)
        passes.run()
    assert task.attempts.count() >= 4
    assert len({strike.host_id for strike in Strike.objects.all()}) == 4
    assert {state_of(f"h{number}") for number in range(1, 5)} == {"ready"}


def test_a_user_whose_tasks_fail_one_after_the_other_takes_out_no_host(hosts: World) -> None:
    for _ in range(5):
        fail(hosts)
    assert state_of("h1") == "ready"


def test_tasks_of_several_users_that_fail_one_after_the_other_take_out_a_host(hosts: World) -> None:
    for user in ("ann", "bob", "ann"):
        fail(hosts, user)
    assert state_of("h1") == "quarantined"


def test_the_only_host_of_its_type_is_not_taken_out_because_tasks_fail(hosts: World) -> None:
    Host.objects.exclude(name="h1").update(lost_since=timezone.now())
    for user in ("ann", "bob", "cem", "dan"):
        fail(hosts, user)
    assert state_of("h1") == "ready"


def test_the_only_host_of_its_type_is_spared_also_where_it_cannot_start_tasks_and_that_is_noted_once(
    hosts: World,
) -> None:
    Host.objects.exclude(name="h1").update(lost_since=timezone.now())
    tasks = [fail(hosts, **BROKEN).pk for _ in range(3)]
    assert state_of("h1") == "ready"
    spared = HostEvent.objects.get(code="spared", host__name="h1")
    assert spared.args == {"failed": tasks, "alone": True}
    assert "no other host in use has cards of its type" in host_events.sentence("spared", spared.args)
    Host.objects.update(lost_since=None)
    fail(hosts, **BROKEN)
    assert state_of("h1") == "quarantined"


def test_a_task_that_ends_well_clears_its_host(hosts: World) -> None:
    for user in ("ann", "bob"):
        fail(hosts, user)
    good = hosts.task()
    passes.run()
    assert Instance.objects.get(gang=hosts.attempt(good).pk).host.name == "h1"
    hosts.host_says(good, "gone")
    passes.run()
    fail(hosts, "cem")
    assert state_of("h1") == "ready"


def same_work(world: World, number: int) -> list[Task]:
    """Return so many tasks of one user that run the same."""
    return [world.task(config={"start_cmd": "./train.sh"}, retry_limit=3) for _ in range(number)]


def sweep_dies_on_h1(world: World, number: int) -> None:
    """Let so many of a sweep of one user fail on h1, one after the other, while one that is on h2 goes on."""
    for _ in range(number):
        [failing] = on_host("h1")
        world.host_says(failing, "gone", exit_code=1)
        passes.run()
        passes.run()  # the next of the sweep takes the free card


@pytest.mark.parametrize("elsewhere", ["ended well", "runs"])
def test_failures_of_work_that_does_well_on_another_host_speak_against_the_host(
    hosts: World, elsewhere: str
) -> None:
    Host.objects.filter(name__in=("h3", "h4")).update(state="cordoned")
    same_work(hosts, 5)
    passes.run()
    [good] = on_host("h2")
    hosts.host_says(good, "running")
    passes.run()
    if elsewhere == "runs":
        Attempt.objects.filter(task=good).update(running_at=timezone.now() - timedelta(seconds=60))
    else:
        sweep_dies_on_h1(hosts, 1)
        hosts.host_says(good, "gone")
        passes.run()
    sweep_dies_on_h1(hosts, 2)
    assert (elsewhere, state_of("h1")) in {("runs", "ready"), ("ended well", "quarantined")}
    if elsewhere == "runs":
        sweep_dies_on_h1(hosts, 1)
    assert state_of("h1") == "quarantined"


def test_failures_of_work_of_which_nobody_knows_how_it_does_elsewhere_do_not(hosts: World) -> None:
    Host.objects.filter(name__in=("h3", "h4")).update(state="cordoned")
    same_work(hosts, 5)
    passes.run()
    [other] = on_host("h2")
    hosts.host_says(other, "running")
    passes.run()
    sweep_dies_on_h1(hosts, 3)
    assert state_of("h1") == "ready"


def on_host(name: str) -> list[Task]:
    """Return the tasks that are on a host now."""
    live = Instance.objects.filter(host__name=name).exclude(phase="gone").values("gang")
    return list(Task.objects.filter(attempts__pk__in=live))


def test_a_fault_that_all_hosts_have_takes_out_a_third_of_them_at_most(hosts: World) -> None:
    for host in ("h1", "h2", "h3", "h4"):
        for _ in range(3):
            fail(hosts, host=host, **BROKEN)
    assert [state_of(f"h{number}") for number in range(1, 5)] == ["quarantined", "ready", "ready", "ready"]
    spared = HostEvent.objects.filter(code="spared")
    assert set(spared.values_list("host__name", flat=True)) == {"h2", "h3", "h4"}
    assert "too many hosts" in host_events.sentence("spared", spared[0].args)


def test_a_host_that_is_spared_again_and_again_has_one_event_of_it(
    hosts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "NAMED", 3)
    for _ in range(3):
        fail(hosts, host="h1", **BROKEN)
    tasks = [fail(hosts, host="h2", **BROKEN).pk for _ in range(5)]
    assert [event.args for event in HostEvent.objects.filter(code="spared")] == [{"failed": tasks[:3]}]


def test_what_no_longer_counts_is_removed_also_where_no_host_is_ever_quarantined(hosts: World) -> None:
    Policy.objects.update(values={"quarantine_after": 0})
    fail(hosts, **BROKEN)
    Strike.objects.update(at=timezone.now() - quarantine.REMEMBERED)
    later = fail(hosts, **BROKEN)
    assert [strike.task_id for strike in Strike.objects.all()] == [later.pk]


def test_an_operator_clears_a_host_and_what_was_before_counts_no_more(hosts: World) -> None:
    for _ in range(3):
        fail(hosts, **BROKEN)
    host = Host.objects.get(name="h1")
    host_moves.act(host, "uncordon", actor_id=hosts.operator().pk, reason="")
    for _ in range(2):
        fail(hosts, **BROKEN)
    assert state_of("h1") == "ready"
    fail(hosts, **BROKEN)
    assert state_of("h1") == "quarantined"


def test_a_host_that_operators_cordoned_is_left_to_them(hosts: World) -> None:
    tasks = [hosts.task()]
    passes.run()
    for _ in range(2):
        fail(hosts, host="h2", **BROKEN)
    Host.objects.filter(name="h2").update(state=State.CORDONED)
    Strike.objects.update(host=Host.objects.get(name="h1"))
    Host.objects.filter(name="h1").update(state=State.CORDONED)
    hosts.host_says(tasks[0], "gone", **BROKEN)
    passes.run()
    assert Strike.objects.filter(host__name="h1").count() == 3
    assert state_of("h1") == "cordoned"


@pytest.mark.parametrize(
    "said",
    [
        {"exit_code": None, "ended_by_itself": True, "detail": "no such commit", "cause": "code"},
        {"exit_code": None, "exit_signal": 9, "ended_by_itself": True, "cause": "oom"},
    ],
    ids=["code that nobody has", "memory that ran out"],
)
def test_what_is_not_the_host_s_fault_is_not_held_against_it(hosts: World, said: dict[str, Any]) -> None:
    for user in ("ann", "bob", "cem"):
        fail(hosts, user, **said)
    assert (state_of("h1"), Strike.objects.count()) == ("ready", 0)
