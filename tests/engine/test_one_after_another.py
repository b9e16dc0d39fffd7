"""A card goes from one task to the next only when it was given back in writing, whoever stands still meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from cluster.models import CardLease
from jobs import lifecycle, services
from jobs.engine import passes, reconcile
from jobs.lifecycle import Closing, End
from jobs.models import Attempt, Task
from jobs.states import State
from tests.chaos import rows, rules
from tests.patience import WITHIN_S
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def written_and_not_committed(write: Callable[[], object]) -> Iterator[None]:
    """Let another connection stand still after `write`, and commit it when this ends."""
    stands, go = threading.Event(), threading.Event()
    fault: list[BaseException] = []

    def hold() -> None:
        try:
            with transaction.atomic():
                write()
                stands.set()
                go.wait(WITHIN_S)
        except BaseException as error:
            fault.append(error)
        finally:
            stands.set()
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    stands.wait(WITHIN_S)
    try:
        yield
    finally:
        go.set()
        thread.join(WITHIN_S)
    assert fault == []


@pytest.fixture
def first(world: World) -> Task:
    """Return a task that has all four cards of the only host."""
    world.business("ads", P40=8)
    world.host("h1", cards=4)
    task = world.task(cards=4, keep_alive=True)
    passes.run()
    world.host_says(task, "running")
    passes.run()
    return task


def kept(world: World, task: Task) -> Callable[[], object]:
    """Let the task keep its place, and return what gives it back."""
    world.host_says(task, "gone")
    passes.run()
    task.refresh_from_db()
    assert task.state == State.KEEPING
    return lambda: services.free(task, task.user)


def closed(world: World, task: Task) -> Callable[[], object]:
    """Let all of the task be gone, and return what closes its attempt."""
    world.host_says(task, "gone", exit_code=1)
    attempt = Attempt.objects.select_related("task").get(task=task)
    end = End(outcome=Attempt.Outcome.FAILED, code="exit_code")
    closing = Closing(attempt=attempt, state=State.RUNNING, end=end)
    return lambda: lifecycle.close_all([closing], backoff_s=0.0)


@pytest.mark.parametrize("how", [kept, closed])
def test_cards_that_are_being_given_back_are_given_away_only_when_that_is_committed(
    world: World,
    first: Task,
    how: Callable[[World, Task], Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if connection.vendor == "sqlite":
        return  # nobody reads what another has not committed, and a second writer waits
    give_back = how(world, first)
    monkeypatch.setattr(reconcile, "run", lambda *_: 0)  # it would wait for the same row, and close it itself
    second = world.task(cards=4, wanted_class="elastic")
    with written_and_not_committed(give_back):
        assert passes.run() is not None
        second.refresh_from_db()
        assert second.state == State.QUEUED
        [lease] = CardLease.objects.values_list("gang", "released_at").distinct()
        assert lease == (Attempt.objects.get(task=first).pk, None)
    passes.run()
    second.refresh_from_db()
    assert second.state == State.STARTING
    assert CardLease.objects.filter(released_at=None).count() == 4
    assert list(rules.no_card_has_two_owners(rows.read())) == []
