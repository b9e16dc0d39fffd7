"""Passes that nobody asked for: made where none ended for too long, and only there."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from jobs.engine import lease, pacemaker, passes
from jobs.engine.pacemaker import PERIODS, Pacemaker
from jobs.models import PassLease
from tests.world import World

PERIOD_S = 2


@pytest.fixture(autouse=True)
def _period(settings: Settings) -> None:
    settings.PASS_PERIOD_S = PERIOD_S


class Time:
    """A clock that only goes forward, as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.mark.django_db
def test_a_pass_is_made_once_none_ended_for_three_periods(clock: Time) -> None:
    passes.run()
    maker = Pacemaker(clock=clock)
    assert not maker.look()
    clock.now += PERIOD_S * PERIODS - 0.1
    assert not maker.look()
    before = PassLease.objects.get().finished_at
    clock.now += 0.1
    assert maker.look()
    assert PassLease.objects.get().finished_at != before


@pytest.mark.django_db
def test_the_first_pass_ever_is_made_too(clock: Time) -> None:
    maker = Pacemaker(clock=clock)
    clock.now += PERIOD_S * PERIODS
    assert maker.look()
    assert PassLease.objects.get().finished_at is not None


@pytest.mark.django_db
def test_whoever_made_one_goes_on_each_period_until_somebody_else_does(clock: Time) -> None:
    maker = Pacemaker(clock=clock)
    clock.now += PERIOD_S * PERIODS
    assert [maker.look() for _ in range(3)] == [True] * 3
    passes.run()  # the beat is back
    assert not maker.look()
    clock.now += PERIOD_S
    assert not maker.look()


@pytest.mark.django_db
def test_while_the_beat_asks_nothing_is_made_unasked(clock: Time) -> None:
    made: list[float] = []

    def make() -> bool:
        made.append(clock.now)
        return True

    maker = Pacemaker(make, clock)
    for _ in range(5):
        passes.run()
        assert not maker.look()
        clock.now += PERIOD_S * 2
    assert made == []


@pytest.mark.django_db
def test_a_pass_that_goes_on_for_long_is_left_alone(clock: Time, caplog: pytest.LogCaptureFixture) -> None:
    passes.run()
    assert lease.take("another", 0)
    caplog.clear()
    maker = Pacemaker(clock=clock)
    maker.look()
    clock.now += PERIOD_S * 10
    began = time.monotonic()
    assert not maker.look()
    assert time.monotonic() - began < 1  # it does not wait for the lease as who was asked does
    assert "unasked" not in caplog.text


@pytest.mark.django_db
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_of_the_database_that_is_put_forward_or_back_keeps_no_pass_from_being_made(
    clock: Time, hours: int
) -> None:
    passes.run()
    ahead = timedelta(hours=hours)
    PassLease.objects.update(finished_at=Now() + ahead, expires_at=Now() + ahead)
    maker = Pacemaker(clock=clock)
    maker.look()
    clock.now += PERIOD_S * PERIODS
    assert maker.look()


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_one_makes_the_passes_and_another_follows_when_it_ends(world: World) -> None:
    clock, together = Time(), threading.Barrier(3)
    makers = [Pacemaker(clock=clock) for _ in range(3)]
    clock.now += PERIOD_S * PERIODS

    def look(maker: Pacemaker) -> None:
        together.wait(60)
        maker.look()
        connection.close()

    threads = [threading.Thread(target=look, args=(maker,)) for maker in makers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    rounds = [[maker.look() for maker in makers] for _ in range(4)]
    assert rounds == [rounds[0]] * 4
    assert sum(rounds[0]) == 1
    makers.pop(rounds[0].index(True))  # it is killed
    assert not any(maker.look() for maker in makers)  # its last pass is news to who looks before it
    made = []
    for _ in range(PERIODS + 2):
        clock.now += PERIOD_S
        made.append(sum(maker.look() for maker in makers))
    assert made == [0] * (PERIODS - 1) + [1] * 3


@pytest.fixture
def fast(settings: Settings) -> Iterator[Callable[[Pacemaker], Pacemaker]]:
    """Start pacemakers that look all the time, and stop them."""
    settings.PASS_PERIOD_S = 0.01
    started: list[Pacemaker] = []

    def start(maker: Pacemaker) -> Pacemaker:
        started.append(maker)
        maker.start()
        return maker

    yield start
    for maker in started:
        maker.stop()


@pytest.mark.django_db(transaction=True)
def test_a_look_that_fails_does_not_end_the_looking(
    fast: Callable[[Pacemaker], Pacemaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, enough = [], threading.Event()

    def away() -> None:
        looked.append(True)
        if len(looked) == 3:
            enough.set()
        raise RuntimeError("the database is away")

    monkeypatch.setattr(pacemaker, "_last_end", away)
    fast(Pacemaker())
    assert enough.wait(60)


@pytest.mark.django_db(transaction=True)
def test_who_stops_it_waits_for_the_pass_that_is_on_its_way_but_not_for_ever(
    fast: Callable[[Pacemaker], Pacemaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> bool:
        begun.set()
        may_end.wait(60)
        ended.set()
        return True

    monkeypatch.setattr(pacemaker, "STOP_S", 0.2)
    maker = fast(Pacemaker(slow))
    assert begun.wait(60)
    maker.stop()
    assert not ended.is_set()
    monkeypatch.setattr(pacemaker, "STOP_S", 10)
    threading.Timer(0.2, may_end.set).start()
    maker.stop()
    assert ended.is_set()


def test_one_that_was_never_started_is_stopped_without_a_fault() -> None:
    Pacemaker().stop()
