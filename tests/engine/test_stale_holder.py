"""A pass that stalls while another process takes over: from then on nothing that it wanted to write is written."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, models
from django.db.transaction import Atomic
from django.utils import timezone

from cluster.models import CardLease, Host, HostEvent, Instance
from jobs.engine import forecasts, foresight, lease, passes
from jobs.models import (
    Attempt,
    Change,
    Claim,
    Forecast,
    PassLease,
    PastUse,
    Task,
    TaskEvent,
    WaitingLine,
)
from quotas.models import UsageRow
from tests import emptying
from tests.world import World

WRITTEN: tuple[type[models.Model], ...] = (
    Attempt, CardLease, Change, Claim, Host, HostEvent, Instance, PassLease, PastUse, Task, TaskEvent, UsageRow,
)  # fmt: skip
State = list[list[tuple[Any, ...]]]


def state() -> State:
    return [list(model._default_manager.order_by("pk").values_list()) for model in WRITTEN]


def take_over() -> None:
    """Take the lease from the process that holds it, as another one does when it stalls."""

    def other() -> None:
        PassLease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert lease.take("another", 0) is not None
        connection.close()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()


class Stall:
    """Stops the pass before its n-th write (a transaction, or a statement alone) until another took over."""

    def __init__(self, at: int) -> None:
        self.at, self.passed = at, 0
        self.armed = False
        self._thread = threading.current_thread()
        self.before: State | None = None

    def pass_by(self) -> None:
        if not self.armed or self.before is not None or threading.current_thread() is not self._thread:
            return
        self.passed += 1
        if self.passed == self.at:
            self.armed = False  # what is done here counts for nothing
            take_over()
            self.before = state()


@contextmanager
def stalled(at: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stall]:
    """Stall a pass run within before its n-th write after it took the lease."""
    stall, enter, take = Stall(at), Atomic.__enter__, lease.take

    def entered(atomic: Atomic) -> None:
        if not connection.in_atomic_block:
            stall.pass_by()
        enter(atomic)

    def taken(*arguments: Any) -> int | None:
        fence = take(*arguments)
        stall.armed = threading.current_thread() is threading.main_thread()
        return fence

    def executed(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if not connection.in_atomic_block and sql.split(maxsplit=1)[0] in {"INSERT", "UPDATE", "DELETE"}:
            stall.pass_by()
        return execute(sql, *rest)

    with monkeypatch.context() as patch, connection.execute_wrapper(executed):
        patch.setattr(Atomic, "__enter__", entered)
        patch.setattr(lease, "take", taken)
        yield stall


def busy() -> None:
    """Make a world in which one pass has something of every kind to write."""
    world = World()
    ago, now = timezone.now() - timedelta(hours=2), timezone.now()
    world.business("ads", P40=9, V100=2, A40=1, M40=1)
    world.business("nlp", P40=0)
    for name, gpu_type in (("h1", "P40"), ("v1", "V100"), ("gone", "A40"), ("lost", "M40"), ("silent", "T4")):
        world.host(name, cards=9 if name == "h1" else 2, gpu_type=gpu_type)
    runs, ends, kept, keeps, over = [
        world.task(keep_alive=n in (2, 3), time_limit_s=60 if n == 4 else None) for n in range(5)
    ]
    auto = world.task("nlp", wanted_class="auto")
    victim = world.task("nlp", cards=2, wanted_class="elastic", gpu_types=["V100"])
    removed, away = world.task(gpu_types=["A40"]), world.task(gpu_types=["M40"])
    passes.run()
    for task in (ends, kept, keeps, over, auto, victim, removed, away):
        world.host_says(task, "running")
    passes.run()
    world.host_says(keeps, "gone")
    passes.run()

    world.host_says(runs, "running")
    world.host_says(ends, "gone")
    world.host_says(kept, "gone")
    Attempt.objects.filter(task=keeps).update(keep_until=ago)
    Attempt.objects.filter(task__in=(over, victim)).update(created_at=ago)
    Host.objects.update(last_seen_at=now)
    Host.objects.filter(name="silent").update(last_seen_at=ago)
    Host.objects.filter(name="gone").update(state="removed")
    Host.objects.filter(name="lost").update(lost_since=ago)
    world.business("nlp", P40=1)
    world.task()
    world.task(cards=9)
    world.task(cards=2, gpu_types=["V100"])
    held = world.task(state="held")
    Claim.objects.create(task=held, gpu_type=world.gpu_type(), hosts={}, made_at=now)
    PastUse.objects.all().delete()


# What happens to the tasks of the busy world in a pass that nobody disturbs.
EVENTS = {
    "running", "succeeded", "keep", "keep_over", "time_limit", "lost", "started", "evicted", "promoted",
    "claim_dropped",
}  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_before_whichever_write_it_stalls_it_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    at = 0
    while True:
        at += 1
        busy()
        with stalled(at, monkeypatch) as stall:
            done = passes.run()
        if stall.before is None:
            break
        assert state() == stall.before, f"write {at}"
        emptying.empty()
    assert done is not None
    assert at > 12
    assert set(TaskEvent.objects.values_list("code", flat=True)) >= EVENTS
    assert HostEvent.objects.filter(code="lost").exists()
    assert Instance.objects.filter(host__name="lost", phase="gone").exists()
    assert PastUse.objects.exists()
    assert Task.objects.filter(state="queued").exclude(reason_code="").exists()


@pytest.mark.django_db(transaction=True)
def test_a_look_ahead_that_was_given_up_writes_nothing_over_a_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.business("ads", P40=1)
    world.host("h1", cards=1)
    world.task(), world.task()
    passes.run()
    look = foresight.look

    def slow(*given: Any) -> Any:
        found = look(*given)
        monkeypatch.setattr(foresight, "look", look)
        Forecast.objects.update(next_at=timezone.now())
        world.task()
        assert forecasts.run() is not None
        return found

    monkeypatch.setattr(foresight, "look", slow)
    forecasts.run()
    assert WaitingLine.objects.get().in_line == 2
    assert Forecast.objects.get().newest_task == Task.objects.latest("pk").pk
