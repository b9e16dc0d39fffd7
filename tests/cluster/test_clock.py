"""Servers whose own clocks differ: all of them go by the database's."""

import time
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from cluster import clock, inventory
from tests.cluster.words import Agent
from tests.world import World

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow the database's clock."""
    monkeypatch.setattr(clock, "follows", True)


@pytest.mark.parametrize("off", [-HOUR, HOUR], ids=["behind", "ahead"])
def test_a_server_s_own_clock_does_not_matter_once_it_looked_at_the_database_s(
    world: World, off: timedelta
) -> None:
    right = timezone.now()
    with time_machine.travel(right + off):
        clock.follow()
        assert abs(clock.now() - right) < timedelta(seconds=30)
        assert clock.ahead_s() == pytest.approx(off.total_seconds(), abs=30)
    with time_machine.travel(right + 9 * off):  # it jumps, and nobody looked again
        assert abs(clock.now() - right) < timedelta(seconds=30)


@pytest.mark.parametrize("off", [-HOUR, HOUR], ids=["behind", "ahead"])
def test_a_host_that_a_web_server_with_a_wrong_clock_hears_is_lost_in_time_and_not_before(
    world: World, off: timedelta
) -> None:
    agent = Agent(world.host("h1"))
    right = timezone.now()
    with time_machine.travel(right + off):
        answer = agent.sync(clock=right.timestamp())
    assert abs(answer["now"] - right.timestamp()) < 30
    assert inventory.sweep(timezone.now(), 40) == []
    assert inventory.sweep(timezone.now() + timedelta(seconds=80), 40) == [agent.host.pk]
    agent.host.refresh_from_db()
    assert abs(agent.host.clock_offset_s) < 30  # nor is the host's clock taken for wrong


def test_the_database_is_asked_now_and_then_and_an_answer_that_took_long_is_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: object
) -> None:
    monkeypatch.setattr(clock, "ANSWER_S", -1.0)
    with django_assert_num_queries(1):  # type: ignore[operator]
        clock.follow()
        clock.follow()  # a database that is slow is left alone
    assert clock._last is None
    monkeypatch.setattr(clock, "ANSWER_S", 5.0)
    now = time.monotonic()
    for looks in (2, 4):
        monkeypatch.setattr(time, "monotonic", lambda looks=looks: now + looks * clock.LOOK_EVERY_S)
        with django_assert_num_queries(1):  # type: ignore[operator]
            clock.follow()
            clock.follow()
        assert clock._last is not None


def test_two_looks_never_mix_where_one_thread_looks_while_another_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = time.monotonic()
    monkeypatch.setattr(clock, "_last", clock._Look(1000.0, began))

    def looked_meanwhile() -> float:
        clock._last = clock._Look(5000.0, began + 4000.0)
        return began + 4000.0

    monkeypatch.setattr(time, "monotonic", looked_meanwhile)
    assert clock.seconds() == pytest.approx(5000.0)
