"""Servers whose own clocks differ: all of them go by the database's."""

import time
from datetime import timedelta

import pytest
import time_machine
from django.apps import apps
from django.db import connection
from django.db.models import NOT_PROVIDED, DateField, TimeField
from django.utils import timezone

from cluster import clock, inventory
from cluster.models import Instance
from jobs.what_ifs import WhatIf
from quotas.models import ApiToken
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


def _looks(monkeypatch: pytest.MonkeyPatch, at_s: float, *, theirs_s: float, took_s: float) -> None:
    """Have this process look `at_s` after it began; the answer takes so long and says so much."""
    times = iter([at_s, at_s, at_s + took_s])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    monkeypatch.setitem(clock.EPOCH, connection.vendor, f"SELECT CAST({theirs_s} AS float)")
    clock.follow()


def _now_s(monkeypatch: pytest.MonkeyPatch, at_s: float) -> float:
    monkeypatch.setattr(time, "monotonic", lambda: at_s)
    return clock.seconds()


def test_the_database_is_asked_now_and_then(world: World, django_assert_num_queries: object) -> None:
    with django_assert_num_queries(1):  # type: ignore[operator]
        clock.follow()
        clock.follow()
    assert clock._last is not None


def test_a_database_that_is_slow_is_asked_again_soon_and_left_alone_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: object
) -> None:
    monkeypatch.setattr(clock, "PRECISE_S", -1.0)
    began = time.monotonic()
    for later_s in (0.0, clock.AGAIN_S + 0.1):
        monkeypatch.setattr(time, "monotonic", lambda later_s=later_s: began + later_s)
        with django_assert_num_queries(1):  # type: ignore[operator]
            clock.follow()
            clock.follow()


def test_an_answer_that_took_long_is_not_believed_while_nothing_speaks_against_what_is_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_s = time.time()
    with time_machine.travel(own_s, tick=False):
        _looks(monkeypatch, 100.0, theirs_s=own_s - 1.0, took_s=3.0)  # it stood still before the answer came
        assert clock._last is None
    _looks(monkeypatch, 110.0, theirs_s=5000.0, took_s=0.002)
    _looks(monkeypatch, 120.0, theirs_s=5011.0, took_s=3.0)
    assert _now_s(monkeypatch, 123.0) == pytest.approx(5013.0, abs=0.01)


def test_a_server_whose_clock_is_wrong_believes_its_first_answer_however_long_it_took(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _looks(monkeypatch, 100.0, theirs_s=5000.0, took_s=0.6)
    assert _now_s(monkeypatch, 101.0) == pytest.approx(
        5000.7, abs=0.01
    )  # right to 0.3 s, and asked again soon
    _looks(monkeypatch, 100.0 + 2 * clock.AGAIN_S, theirs_s=5002.1, took_s=0.002)
    assert _now_s(monkeypatch, 102.0) == pytest.approx(5002.1, abs=0.01)


def test_to_connect_takes_its_time_and_says_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ours_s = 100.0
    real = connection.cursor

    def connecting() -> object:
        nonlocal ours_s
        ours_s += 5.0
        return real()

    monkeypatch.setattr(time, "monotonic", lambda: ours_s)
    monkeypatch.setattr(connection, "cursor", connecting)
    monkeypatch.setitem(clock.EPOCH, connection.vendor, "SELECT CAST(5000 AS float)")
    clock.follow()
    assert _now_s(monkeypatch, 105.0) == pytest.approx(5000.0)


def test_the_better_of_two_answers_goes_on_until_it_is_so_old_that_it_says_less(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _looks(monkeypatch, 100.0, theirs_s=5000.0, took_s=0.002)
    # As where the process is stopped for a moment between the answer and the look at its own clock.
    _looks(monkeypatch, 110.0, theirs_s=5010.0, took_s=0.19)
    assert _now_s(monkeypatch, 110.19) == pytest.approx(5010.19, abs=0.01)
    _looks(monkeypatch, 210.0, theirs_s=5110.0, took_s=0.19)
    assert _now_s(monkeypatch, 210.19) == pytest.approx(5110.1, abs=0.01)


@pytest.mark.parametrize("moved_s", [-60.0, 0.5, 3600.0])
def test_a_database_whose_clock_was_set_is_believed_at_once_also_where_it_answers_slowly(
    world: World, monkeypatch: pytest.MonkeyPatch, moved_s: float
) -> None:
    _looks(monkeypatch, 100.0, theirs_s=5000.0, took_s=0.002)
    _looks(monkeypatch, 110.0, theirs_s=5010.0 + moved_s, took_s=0.4)
    assert _now_s(monkeypatch, 111.0) == pytest.approx(5010.8 + moved_s, abs=0.01)


def test_two_servers_that_know_least_of_all_that_is_believed_agree_within_what_the_house_counts_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one the database's clock was read as soon as it was asked, for the other just before the answer was here."""
    said = []
    for read_after_s in (0.0, clock.ANSWER_S):
        clock._last, clock._next_at = None, 0.0
        _looks(monkeypatch, 100.0, theirs_s=5000.0 + read_after_s, took_s=clock.ANSWER_S)
        said.append(_now_s(monkeypatch, 105.0))
    assert abs(said[0] - said[1]) == pytest.approx(clock.ANSWER_S)


def test_two_looks_never_mix_where_one_thread_looks_while_another_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = time.monotonic()
    monkeypatch.setattr(clock, "_last", clock._Look(1000.0, began, 0.0))

    def looked_meanwhile() -> float:
        clock._last = clock._Look(5000.0, began + 4000.0, 0.0)
        return began + 4000.0

    monkeypatch.setattr(time, "monotonic", looked_meanwhile)
    assert clock.seconds() == pytest.approx(5000.0)


def test_no_row_bears_the_time_of_a_server_s_own_clock_by_itself() -> None:
    ours = {"cluster", "quotas", "jobs", "taiji_site"}
    times = [
        field
        for model in apps.get_models()
        # What is kept of a row as it was, and when, is never compared with a time of ours.
        if model._meta.app_label in ours and not hasattr(model, "history_date")
        for field in model._meta.concrete_fields
        if isinstance(field, DateField | TimeField)
    ]
    assert len(times) > 20
    by_itself = [
        str(field)
        for field in times
        if getattr(field, "auto_now", False)
        or getattr(field, "auto_now_add", False)
        or field.default not in {NOT_PROVIDED, clock.now}
    ]
    assert by_itself == []


@pytest.mark.parametrize("off", [-HOUR, HOUR], ids=["behind", "ahead"])
def test_what_a_server_with_a_wrong_clock_writes_bears_the_shared_time(world: World, off: timedelta) -> None:
    right = timezone.now()
    host = world.host("h1")
    with time_machine.travel(right + off):
        clock.follow()
        asked = WhatIf.objects.create(user=world.operator(), days=1, change={}, base={})
        ApiToken.objects.issue(world.operator(), "ci")
        made = Instance.objects.create(host=host, gang=1, label="x", spec={})
    host.refresh_from_db()
    for at in (asked.made_at, ApiToken.objects.get().created_at, made.created_at, host.state_changed_at):
        assert abs(at - right) < timedelta(seconds=30)
