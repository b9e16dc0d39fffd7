"""Whole passes over the database: starts, evictions, pull-ups, and what two passes at once may not do."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from cryptography.fernet import Fernet
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from cluster import vault
from cluster.models import Card, CardLease, Host, Instance
from jobs import services
from jobs.engine import lease, passes, snapshot
from jobs.models import Attempt, Claim, PassLease, Policy, Task
from jobs.scheduling.decide import decide
from quotas.models import UsageRow
from tests.engine.quiet import settle
from tests.world import World

pytestmark = pytest.mark.django_db


def after_pass(*tasks: Task) -> list[str]:
    passes.run()
    return states(*tasks)


def states(*tasks: Task) -> list[str]:
    for task in tasks:
        task.refresh_from_db()
    return [task.state for task in tasks]


def told_to_go(world: World, task: Task) -> None:
    """Let the hosts end the task as ordered."""
    world.host_says(task, "gone", exit_code=None, exit_signal=15, ended_by_itself=False)


def old(task: Task, hours: float) -> None:
    """Let the task have run for so long."""
    Attempt.objects.filter(task=task, ended_at=None).update(
        created_at=timezone.now() - timedelta(hours=hours)
    )


@pytest.fixture
def full(world: World) -> list[Task]:
    """Return four elastic tasks of two cards that fill a host, the second one running longest."""
    world.business("ads", P40=8)
    world.business("nlp", P40=0)
    world.host("h1")
    tasks = [world.task("nlp", "ben", cards=2, wanted_class="elastic", pull_up=True) for _ in range(4)]
    passes.run()
    for task, hours in zip(tasks, (1, 4, 3, 2), strict=True):
        world.host_says(task, "running")
        old(task, hours)
    assert after_pass(*tasks) == ["running"] * 4
    return tasks


def test_the_high_task_gets_the_cards_of_the_longest_runner_and_the_victim_comes_back(
    world: World, full: list[Task]
) -> None:
    high = world.task("ads", cards=2)
    assert after_pass(high, *full) == ["queued", "running", "evicting", "running", "running"]
    victim = full[1]
    attempt = world.attempt(victim)
    assert (attempt.evicted_for_id, attempt.evict_rule) == (high.pk, "victim")
    assert after_pass(high, victim) == ["queued", "evicting"]
    told_to_go(world, victim)
    assert after_pass(high, victim) == ["starting", "queued"]
    world.host_says(high, "running")
    Task.objects.filter(pk=victim.pk).update(ready_at=timezone.now())
    assert after_pass(high, victim) == ["running", "queued"]
    assert victim.reason_code
    world.host_says(high, "gone")
    assert after_pass(high) == ["succeeded"]
    assert after_pass(victim) == ["starting"]
    assert victim.attempts.count() == 2


def test_a_pass_that_loads_for_as_long_as_its_lease_is_not_overtaken_while_it_decides(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = snapshot.load
    others: list[int | None] = []

    def slow(*given: Any) -> snapshot.Loaded:
        PassLease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        return load(*given)

    def watched(*given: Any) -> Any:
        others.append(lease.take("another", 0))
        return decide(*given)

    monkeypatch.setattr(snapshot, "load", slow)
    monkeypatch.setattr("jobs.engine.passes.decide", watched)
    done = passes.run()
    assert others == [None]
    assert done is not None
    assert done.planned


def test_cards_freed_by_an_eviction_are_not_given_to_someone_else(world: World, full: list[Task]) -> None:
    high = world.task("ads", cards=4)
    passes.run()
    victims = [task for task in full if states(task) == ["evicting"]]
    assert len(victims) == 2
    told_to_go(world, victims[0])
    thief = world.task("nlp", "ben", cards=2, wanted_class="elastic")
    assert after_pass(high, thief) == ["queued", "queued"]
    told_to_go(world, victims[1])
    assert after_pass(high, thief) == ["starting", "queued"]


def test_no_second_victim_is_chosen_while_the_first_is_leaving(world: World, full: list[Task]) -> None:
    high = world.task("ads", cards=2)
    for _ in range(5):
        passes.run()
    assert sorted(states(*full)) == ["evicting", "running", "running", "running"]
    assert states(high) == ["queued"]
    assert Claim.objects.get().task_id == high.pk


def test_stopping_the_high_task_gives_its_held_cards_back(world: World, full: list[Task]) -> None:
    high = world.task("ads", cards=2)
    passes.run()
    services.stop(high, high.user)
    told_to_go(world, full[1])
    Task.objects.filter(pk=full[1].pk).update(ready_at=timezone.now())
    passes.run()
    Task.objects.filter(pk=full[1].pk).update(ready_at=timezone.now())
    assert after_pass(full[1]) == ["starting"]


def test_a_task_over_its_quota_waits_and_evicts_nobody(world: World, full: list[Task]) -> None:
    first = world.task("ads", cards=8)
    passes.run()
    second = world.task("ads", cards=1)
    assert after_pass(second) == ["queued"]
    assert "quota" in second.reason_code
    assert states(first) == ["queued"]


def test_a_reason_is_stored_with_its_numbers_and_goes_when_the_task_starts(world: World) -> None:
    world.business("ads", P40=16)
    host = world.host("h1", cards=2)
    task = world.task(cards=4)
    assert after_pass(task) == ["queued"]
    assert task.reason_code
    Card.objects.bulk_create(Card(host=host, index=i, gpu_type=world.gpu_type()) for i in (2, 3))
    assert after_pass(task) == ["starting"]
    assert (task.reason_code, task.reason_args) == ("", {})


def test_a_card_cannot_be_leased_twice_whoever_tries(world: World) -> None:
    world.business("ads", P40=16)
    world.host("h1", cards=1)
    task = world.task()
    passes.run()
    card, instance = Card.objects.get(), Instance.objects.get()
    with pytest.raises(IntegrityError, match=r"card_leased_once|card_id"), transaction.atomic():
        CardLease.objects.create(card=card, instance=instance, gang=instance.gang)
    assert states(task) == ["starting"]


def test_a_task_cannot_have_two_open_attempts_whoever_opens_them(world: World) -> None:
    world.business("ads", P40=16)
    world.host("h1", cards=1)
    task = world.task()
    passes.run()
    values = (
        Attempt.objects.filter(task=task).values("gpu_type_id", "task_class", "cards", "created_at").get()
    )
    with pytest.raises(IntegrityError, match=r"one_open_attempt|task_id"), transaction.atomic():
        Attempt.objects.create(task=task, number=2, **values)


def test_a_start_whose_card_was_taken_meanwhile_does_not_hinder_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.business("ads", P40=16)
    world.host("h1", cards=2)
    blocker = world.task()
    passes.run()
    leased = CardLease.objects.get().card_id
    first, second = world.task(), world.task()
    stale = snapshot.load

    def load(now: float, half_life_s: float) -> snapshot.Loaded:
        CardLease.objects.filter(card=leased).update(released_at=timezone.now())
        loaded = stale(now, half_life_s)
        CardLease.objects.filter(card=leased).update(released_at=None)
        return loaded

    monkeypatch.setattr(snapshot, "load", load)
    assert sorted(after_pass(first, second)) == ["queued", "starting"]
    assert states(blocker) == ["starting"]


def test_a_pass_in_which_nothing_changed_costs_few_queries(
    world: World, full: list[Task], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        world.task("nlp", "ben", cards=2, wanted_class="elastic")
    settle()
    with django_assert_max_num_queries(16):
        passes.run()


def test_a_pass_costs_the_same_queries_however_many_tasks_it_starts_evicts_and_explains(world: World) -> None:
    assert queries_of_a_pass(world, "A40", 1) == queries_of_a_pass(world, "P40", 6)


def queries_of_a_pass(world: World, gpu_type: str, size: int) -> int:
    """Count the queries of a pass that starts so many tasks, evicts so many and lets so many wait."""
    world.business("ads", **{gpu_type: 2 * size})
    world.host(f"h-{gpu_type}", cards=2 * size, gpu_type=gpu_type)
    victims = [world.task(gpu_types=[gpu_type], wanted_class="elastic") for _ in range(size)]
    settle()
    high = [world.task(gpu_types=[gpu_type]) for _ in range(2 * size)]
    waiting = [world.task(gpu_types=[gpu_type], wanted_class="elastic") for _ in range(size)]
    with CaptureQueriesContext(connection) as queries:
        passes.run()
    assert states(*victims, *waiting) == ["evicting"] * size + ["queued"] * size
    assert sorted(states(*high)) == ["queued"] * size + ["starting"] * size
    return len(queries)


def test_ends_cost_the_same_queries_however_many_come_at_once(world: World) -> None:
    # In one instant: what is due as time goes by, such as a sweep, is none of their cost.
    with time_machine.travel(timezone.now(), tick=False):
        assert queries_of_ends(world, "A40", 1) == queries_of_ends(world, "P40", 6)


def queries_of_ends(world: World, gpu_type: str, size: int) -> int:
    """Count the queries of a pass that hears of so many ends: good ones, bad ones and those of evicted tasks."""
    Policy.objects.update_or_create(
        pk=1, defaults={"values": {"quarantine_after": 0}}
    )  # else the host is out
    world.business("ads", **{gpu_type: 3 * size})
    world.host(f"h-{gpu_type}", cards=3 * size, gpu_type=gpu_type)
    evicted = [
        world.task(gpu_types=[gpu_type], wanted_class="elastic", pull_up=True, time_limit_s=9)
        for _ in range(size)
    ]
    good = [world.task(gpu_types=[gpu_type]) for _ in range(size)]
    bad = [world.task(gpu_types=[gpu_type]) for _ in range(size)]
    settle()
    for task in (*evicted, *good, *bad):
        world.host_says(task, "running")
    settle()
    high = [world.task(gpu_types=[gpu_type]) for _ in range(size)]
    settle()
    for task in (*evicted, *good):
        world.host_says(task, "gone", exit_code=0 if task in good else None, ended_by_itself=task in good)
    for task in bad:
        world.host_says(task, "gone", exit_code=3, ended_by_itself=True)
    with CaptureQueriesContext(connection) as queries:
        passes.run()
    assert states(*good, *bad) == ["succeeded"] * size + ["failed"] * size
    assert set(states(*evicted)) == {"queued"}
    assert set(states(*high)) == {"starting"}
    return len(queries)


def test_a_policy_key_of_the_admin_is_obeyed(world: World, full: list[Task]) -> None:
    Policy.objects.create(pk=1, values={"victim_order": "shortest_run"})
    world.task("ads", cards=2)
    assert after_pass(*full) == ["evicting", "running", "running", "running"]


def test_a_draining_host_evicts_its_elastic_tasks_and_lets_the_high_ones_finish(world: World) -> None:
    world.business("ads", P40=8)
    host = world.host("h1")
    high = world.task("ads", cards=2)
    elastic = world.task("ads", cards=2, wanted_class="elastic")
    passes.run()
    Host.objects.filter(pk=host.pk).update(state="draining")
    assert after_pass(high, elastic) == ["starting", "evicting"]


def test_a_holder_whose_lease_was_taken_over_writes_nothing(world: World) -> None:
    fence = lease.take("a", 0)
    assert fence is not None
    assert lease.take("b", 0) is None
    PassLease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert lease.take("b", 0) == fence + 1
    with pytest.raises(lease.StaleHolder):
        lease.guard(fence)
    lease.guard(fence + 1)


@pytest.mark.parametrize("holder", ["", "dead"])
def test_a_lease_from_before_the_clock_was_put_back_is_free(world: World, holder: str) -> None:
    fence = lease.take("a", 0)
    assert fence is not None
    PassLease.objects.update(expires_at=timezone.now() + timedelta(hours=1), holder=holder)
    assert lease.take("b", 0) == fence + 1
    with pytest.raises(lease.StaleHolder):
        lease.guard(fence)


def test_the_number_of_a_lease_is_never_that_of_who_took_over_right_after(world: World) -> None:
    lease.let_go(lease.take("a", 0) or 0)
    fence = PassLease.objects.get().fence

    def stalls(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        done = execute(sql, *rest)
        if sql.startswith("UPDATE") and PassLease.objects.get().fence == fence + 1:
            PassLease.objects.update(fence=fence + 2, holder="c")
        return done

    with connection.execute_wrapper(stalls):
        assert lease.take("b", 0) == fence + 1


def test_a_pass_that_fails_gives_the_lease_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(now: float, half_life_s: float) -> snapshot.Loaded:
        raise RuntimeError("no database")

    monkeypatch.setattr(snapshot, "load", broken)
    with pytest.raises(RuntimeError):
        passes.run()
    monkeypatch.undo()
    assert passes.run(wait_s=0) is not None


@pytest.mark.django_db(transaction=True)
def test_twenty_tasks_and_three_passes_at_once_start_exactly_one_on_the_one_card() -> None:
    world = World()
    world.business("ads", P40=20)
    world.host("h1", cards=1)
    tasks = [world.task() for _ in range(20)]
    barrier = threading.Barrier(3)

    def run() -> None:
        barrier.wait()
        passes.run()
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(states(*tasks)) == ["queued"] * 19 + ["starting"]
    assert CardLease.objects.filter(released_at=None).count() == 1


def test_past_elastic_use_decays_by_half_in_a_half_life(world: World) -> None:
    now = timezone.now()
    business, user = world.business("ads"), world.user("ann", "ads")
    for number, (hours, task_class) in enumerate(
        [(0, "elastic"), (1, "elastic"), (2, "elastic"), (0, "high")]
    ):
        ended = now - timedelta(hours=hours)
        UsageRow.objects.create(
            attempt=number,
            task=number,
            business=business,
            user=user,
            gpu_type=world.gpu_type(),
            task_class=task_class,
            cards=2,
            started_at=ended - timedelta(seconds=100),
            ended_at=ended,
            seconds=100.0,
            outcome="succeeded",
        )
    (usage,) = snapshot.load(now.timestamp(), 3600).snapshot.usage
    assert usage.card_s == pytest.approx(200 + 100 + 50)


def test_the_policy_says_how_long_an_end_may_take(world: World) -> None:
    world.business("ads", P40=8)
    world.host("h1")
    Policy.objects.create(values={"exit_grace_s": 12})
    task = world.task()
    assert after_pass(task) == ["starting"]
    assert Instance.objects.get(gang=world.attempt(task).pk).spec["grace_s"] == 12


def test_a_task_whose_secrets_cannot_be_read_says_so_and_stops_no_other(
    world: World, settings: Settings
) -> None:
    world.business("ads", P40=16)
    world.host("h1")
    lost = world.task(secrets=vault.seal({"env.KEY": "hush"}))
    settings.VAULT_KEYS = [Fernet.generate_key().decode()]
    other = world.task()
    assert after_pass(lost, other) == ["starting", "starting"]
    commands = {row.gang: row.spec["command"] for row in Instance.objects.all()}
    assert "secrets of this task cannot be read" in commands[world.attempt(lost).pk]
    assert commands[world.attempt(other).pk] == "true"
