"""Hosts whose calls fail again and again: operators are warned once, and told once that it is over."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone, translation
from pytest_django import DjangoAssertNumQueries

from cluster import host_calls, host_events, inventory, reports
from cluster.agent.calls import Calls
from cluster.agent.protocol import WAIT_S
from cluster.fields import Malformed
from cluster.models import Host, HostEvent
from cluster.reports import CallsReport
from jobs.models import Change
from tests.cluster import words
from tests.cluster.words import Agent
from tests.world import World

FAULT = "The platform at https://taiji.test does not answer: All connection attempts failed."


def calls(**more: object) -> dict[str, Any]:
    """Return the figures of an agent that counts for long and whose line is well."""
    return {"over_s": 600, "made": 30, "failed": 0, "times": 0, "longest_s": 0, "fault": ""} | more


def bad(times: int = 3, **more: object) -> dict[str, Any]:
    """Return those of one whose calls failed at so many times."""
    return calls(made=42, failed=4 * times, times=times, longest_s=3, fault=FAULT) | more


def said(figures: dict[str, Any] | None) -> CallsReport | None:
    return None if figures is None else CallsReport(**figures)


# Whether it is to be warned of


@pytest.mark.parametrize("warned", [False, True])
@pytest.mark.parametrize(
    ("figures", "before", "while_warned"),
    [
        (calls(), False, False),
        (bad(1), False, True),  # one restart of the platform
        (bad(2), False, True),
        (bad(3), True, True),
        (bad(3, over_s=40), True, True),  # of an agent that started just now
        (calls(failed=9, times=0, longest_s=700, fault=FAULT), False, True),  # it began long ago, and goes on
        (calls(over_s=host_calls.WELL_S - 1), False, True),  # it started anew: it does not know
        (calls(over_s=host_calls.WELL_S), False, False),
        (None, False, False),  # an older agent took over
    ],
)
def test_it_begins_with_three_times_and_is_over_when_nothing_failed_for_long(
    figures: dict[str, Any] | None, before: bool, while_warned: bool, warned: bool
) -> None:
    kept = host_calls.kept(bad(5) if warned else None, said(figures))
    assert (kept is not None) is (while_warned if warned else before)


def test_the_latest_figures_are_kept_and_of_an_agent_that_started_anew_the_last_that_say_something() -> None:
    assert host_calls.kept(bad(5), said(bad(2))) == bad(2)
    assert host_calls.kept(bad(5), said(calls(over_s=7, made=2))) == bad(5)


def story(
    until_s: float, broken_until_s: float, every_s: float = 60.0, for_s: float = 3.0
) -> list[tuple[float, bool]]:
    """Return when it is begun and ended to warn of an idle host whose line breaks so often, and for so long.

    As its agent calls: each call is held for 20 s, or breaks off with the line, and is tried again soon.
    """

    def breaks_in(now_s: float) -> float:
        """Return in how many seconds the line is broken next; 0: it is."""
        into_s = now_s % every_s
        return 0.0 if into_s < for_s else every_s - into_s

    calls, now_s, failures, before = Calls(0.0), 10.0, 0, None
    told: list[tuple[float, bool]] = []
    while now_s < until_s:
        good_s = breaks_in(now_s) if now_s < broken_until_s else until_s
        if good_s:  # the report arrives, whatever becomes of the answer
            kept = host_calls.kept(before, CallsReport(**calls.report(now_s)))
            told += [(now_s, kept is not None)] if (kept is None) != (before is None) else []
            before = kept
        if good_s >= WAIT_S:
            now_s, failures = now_s + WAIT_S, 0
            calls.answered(now_s)
        else:
            calls.failed(now_s + good_s, now_s, "It is cut.", WAIT_S)
            now_s, failures = now_s + good_s + 0.15 * 2.0**failures, failures + 1
    return told


def test_a_line_that_breaks_for_3_s_in_each_minute_of_two_hours_is_told_once_and_once_that_it_is_well() -> (
    None
):
    (begun_s, began), (over_s, ended) = story(9000, broken_until_s=7200)
    assert (began, ended) == (True, False)
    assert 180 <= begun_s <= 200  # at its third time
    assert 7200 + 540 < over_s < 7200 + 640


@pytest.mark.parametrize("every_s", [12.0, 30.0, 170.0])
def test_it_is_told_as_well_where_it_breaks_more_often_or_less(every_s: float) -> None:
    assert [what for _, what in story(9000, broken_until_s=7200, every_s=every_s)] == [True, False]


def test_a_line_that_breaks_once_in_ten_minutes_or_once_for_long_is_not_told_of() -> None:
    assert story(9000, broken_until_s=7200, every_s=600.0) == []
    assert story(9000, broken_until_s=3000, every_s=2000.0, for_s=80.0) == []


# What agents may say


@pytest.mark.parametrize("figures", [None, calls(), bad(), bad(fault="nul\x00" + "x" * 999)])
def test_what_an_agent_counted_is_read(figures: dict[str, Any] | None) -> None:
    found = reports.read(words.report(calls=figures)).calls
    assert (found is None) is (figures is None)
    assert found is None or ("\x00" not in found.fault and len(found.fault) <= 255)


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({"failed": 43, "times": 0}, ["calls.failed"]),  # more than were made
        ({"times": 13}, ["calls.times"]),  # more than failed
        ({"made": -1, "failed": 0, "times": 0}, ["calls.made"]),
        ({"made": True, "failed": 0, "times": 0}, ["calls.made"]),
        ({"longest_s": 1.5}, ["calls.longest_s"]),
        ({"longest_s": float("nan")}, ["calls.longest_s"]),
        ({"over_s": 2**31}, ["calls.over_s"]),
        ({"over_s": None, "fault": 7}, ["calls.over_s", "calls.fault"]),
    ],
)
def test_figures_that_cannot_be_are_refused_by_name(more: dict[str, Any], fields: list[str]) -> None:
    with pytest.raises(Malformed) as error:
        reports.read(words.report(calls=bad() | more))
    assert [fault.field for fault in error.value.faults] == fields


@pytest.mark.parametrize("value", ["x", 7, [], True])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(Malformed) as error:
        reports.read(words.report(calls=value))
    assert error.value.faults[0].field == "calls"


# What the platform makes of it


@pytest.fixture
def agent(world: World) -> Agent:
    """Return the agent of a host that is well, which has synced once."""
    agent = Agent(world.host("h1"))
    agent.sync(protocol=2, clock=timezone.now().timestamp())
    return agent


def tell(agent: Agent, figures: dict[str, Any]) -> None:
    """Have the agent sync with these figures, at a moment when its being seen is written down."""
    Host.objects.update(last_seen_at=None)
    agent.sync(protocol=2, clock=timezone.now().timestamp(), calls=figures)


def codes() -> list[str]:
    return list(HostEvent.objects.order_by("id").values_list("code", flat=True))


def warnings() -> list[str]:
    facts = host_events.Facts.of(Host.objects.get())
    return host_events.warnings(facts, timezone.now())


def test_operators_are_warned_while_calls_fail_again_and_again_and_each_change_is_an_event(
    agent: Agent,
) -> None:
    for figures in (calls(), bad(1), bad(2), bad(3), bad(4), bad(2), bad(1)):
        tell(agent, figures)
    [warning] = warnings()
    assert warning == (
        "Its calls to the platform fail again and again: 4 of 42 in 600 s, at 1 time, for 3 s at most. "
        f"The last: {FAULT}"
    )
    assert codes() == ["calls_fail"]
    tell(agent, calls())
    tell(agent, bad(2))
    assert (warnings(), codes()) == ([], ["calls_fail", "calls_well"])
    event = HostEvent.objects.get(code="calls_fail")
    assert "12 of 42" in host_events.sentence(event.code, event.args)


def test_an_agent_that_does_not_count_is_served_and_nothing_is_made_up_of_it(agent: Agent) -> None:
    tell(agent, bad())
    agent.seq = 0
    agent.sync(protocol=1, boot="22222222-2222-4222-8222-222222222222", clock=timezone.now().timestamp())
    assert codes() == ["calls_fail", "agent_old"]
    assert [word for word in warnings() if "calls" in word] == []


def test_an_agent_that_starts_anew_again_and_again_tells_nothing_anew_until_it_looks_back_far_enough(
    agent: Agent,
) -> None:
    tell(agent, bad())
    for number in range(3):
        agent.seq = 0
        boot = f"{number}2222222-2222-4222-8222-222222222222"
        for more in (calls(over_s=1, made=1), bad(1, over_s=20), calls(over_s=host_calls.WELL_S - 1)):
            Host.objects.update(last_seen_at=None)
            agent.sync(protocol=2, boot=boot, clock=timezone.now().timestamp(), calls=more)
            assert len(warnings()) == 1
    agent.sync(protocol=2, boot=boot, clock=timezone.now().timestamp(), calls=calls(over_s=host_calls.WELL_S))
    assert (warnings(), codes()) == ([], ["calls_fail", "calls_well"])


def test_a_host_that_was_lost_meanwhile_tells_when_it_is_back_how_its_calls_went(agent: Agent) -> None:
    tell(agent, bad())
    Host.objects.update(lost_since=timezone.now())
    tell(agent, bad(1, failed=30, longest_s=200))
    assert "for 200 s at most" in warnings()[0]
    tell(agent, calls())
    assert (warnings(), codes()) == ([], ["calls_fail", "back", "calls_well"])


def test_a_removed_host_is_not_warned_of_for_ever(agent: Agent) -> None:
    tell(agent, bad())
    Host.objects.update(state=Host.State.REMOVED)
    Host.objects.update(last_seen_at=timezone.now() - timedelta(seconds=1000))
    inventory.sweep(timezone.now(), 90)
    assert warnings() == []


NASTY = '<script>alert(1)</script>\x00\ud800\u202e%(made)s%s{0}"' + "x" * 9999


def test_a_fault_of_whatever_letters_is_kept_and_shown_as_it_is(agent: Agent) -> None:
    tell(agent, bad(fault=NASTY))
    with translation.override("zh-hans"):
        [warning] = warnings()
    assert '<script>alert(1)</script>?\u202e%(made)s%s{0}"xxx' in warning
    event = HostEvent.objects.get(code="calls_fail")
    assert len(event.args["fault"]) == 255


def test_figures_that_are_refused_change_nothing(agent: Agent) -> None:
    tell(agent, bad())
    before = Host.objects.values().get()
    for wrong in ({"failed": 10**400}, {"made": None}, {"over_s": "600"}, {"times": float("inf")}):
        agent.sync(status=400, protocol=2, calls=bad() | wrong)
    assert Host.objects.values().get() == before


def test_a_host_that_is_lost_is_not_warned_of_by_what_it_said_before(agent: Agent) -> None:
    tell(agent, bad())
    Host.objects.update(lost_since=timezone.now())
    assert warnings() == []


def test_the_warning_is_shown_in_chinese_the_agent_s_words_too(agent: Agent) -> None:
    tell(agent, bad())
    with translation.override("zh-hans"):
        [warning] = warnings()
    assert "42 次调用中有 12 次失败" in warning
    assert "https://taiji.test 的平台没有应答" in warning


def test_while_nothing_changes_the_figures_cost_no_query_and_no_plan(
    agent: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    tell(agent, bad())
    Change.objects.all().delete()
    with django_assert_num_queries(3):  # host, instances, cards
        agent.sync(protocol=2, calls=bad(7))
    Host.objects.update(last_seen_at=None)
    with django_assert_num_queries(4):  # and the host was seen, which is written now and then in any case
        agent.sync(protocol=2, clock=timezone.now().timestamp(), calls=bad(7))
    kept = Host.objects.get().calls
    assert kept is not None
    assert (kept["times"], codes()) == (7, ["calls_fail"])
    assert not Change.objects.exists()  # a plan is not made from it
