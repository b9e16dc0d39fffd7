"""A pass that is stopped in the middle of a transaction, on PostgreSQL: its locks end, and another goes on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import Error, OperationalError, connection, transaction
from django.utils import timezone

from jobs.engine import changes, forecasts, lease, passes, patience
from jobs.models import Forecast, PassLease
from tests.world import World

SOON_S = 0.5
ENDS_S = 10.0  # whoever waits for longer in these tests waits for ever


@pytest.fixture
def impatient(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Let leases and silence be over soon, and no wait of the test itself last for ever; False on SQLite.

    There is one writer there, who is waited for as long as the options say.
    """
    if connection.vendor == "sqlite":
        yield False
        return
    monkeypatch.setattr(lease, "LEASE_S", SOON_S)
    monkeypatch.setattr(patience, "STALLED_S", 2 * SOON_S)
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = '{ENDS_S}s'")
    yield True
    with connection.cursor() as cursor:
        cursor.execute("RESET statement_timeout")


@contextmanager
def stopped_within(write: Callable[[], object]) -> Iterator[list[Exception]]:
    """Let another connection stand still in a transaction after `write`; gives what became of it in the end."""
    stands, go, ended = threading.Event(), threading.Event(), list[Exception]()

    def hold() -> None:
        try:
            with transaction.atomic():
                write()
                stands.set()
                go.wait(3 * ENDS_S)
                PassLease.objects.update(holder="stopped")
        except Error as error:
            ended.append(error)
        finally:
            stands.set()
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    stands.wait()
    try:
        yield ended
    finally:
        go.set()
        thread.join()


def test_a_holder_that_is_stopped_inside_a_transaction_is_ended_and_another_takes_the_lease(
    impatient: bool,
) -> None:
    if not impatient:
        return
    fence = lease.take("stopped", 0)
    assert fence is not None
    with stopped_within(lambda: lease.guard(fence)) as ended:
        assert lease.take("another", ENDS_S) == fence + 1
    assert ended
    assert PassLease.objects.get().holder == "another"


def test_one_that_is_stopped_while_it_takes_the_marks_keeps_no_plan_from_being_made(impatient: bool) -> None:
    if not impatient:
        return
    World().business("ads", P40=1)
    fence = lease.take("stopped", 0)
    assert fence is not None
    with stopped_within(lambda: changes.take(fence)) as ended:
        done = passes.run(ENDS_S)
    assert ended
    assert done is not None
    assert done.planned


def test_a_look_ahead_that_is_stopped_while_it_writes_keeps_no_later_one_from_it(impatient: bool) -> None:
    if not impatient:
        return
    now = timezone.now()
    Forecast.objects.create(pk=1, next_at=now)
    mine = Forecast.objects.filter(pk=1, next_at=now)
    with stopped_within(lambda: forecasts._write(now, [], None, mine)) as ended:
        forecasts.run()
    assert ended
    assert Forecast.objects.get().next_at > now


def test_a_wait_for_a_lock_that_nobody_ends_is_broken_off(
    impatient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not impatient:
        return
    monkeypatch.setattr(patience, "LOCK_S", SOON_S)
    fence = lease.take("first", 0)
    assert fence is not None
    with (
        stopped_within(lambda: PassLease.objects.update(holder="somebody")),
        pytest.raises(OperationalError, match="lock timeout"),
        transaction.atomic(),
    ):
        lease.guard(fence)


def test_the_times_hold_for_the_transaction_alone(impatient: bool) -> None:
    if not impatient:
        return
    fence = lease.take("first", 0)
    assert fence is not None
    with lease.writing(fence):
        assert _shown("idle_in_transaction_session_timeout") == "1s"
        assert _shown("lock_timeout") == "45s"
    assert (_shown("idle_in_transaction_session_timeout"), _shown("lock_timeout")) == ("0", "0")


def _shown(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return str(cursor.fetchone()[0])
