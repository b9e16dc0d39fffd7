"""What was measured on cards: kept once a minute, given back as lines to draw, removed when it is old."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from cluster import card_faults, card_metrics, reports
from cluster.models import Card, CardMinute, Host, HostEvent
from jobs import tasks
from tests.cluster import words
from tests.cluster.words import Agent
from tests.world import World

START = datetime(2030, 1, 1, 8, 0, tzinfo=UTC)
FIRST = int(START.timestamp() // 60)
NOTHING: dict[str, Any] = dict.fromkeys(card_metrics.METRICS)


@pytest.fixture
def host(world: World) -> Host:
    """Return a host with two cards."""
    return world.host("h1", 2)


@pytest.fixture
def agent(host: Host) -> Agent:
    """Return its agent."""
    return Agent(host)


def minute(card: int = 0, at: int = FIRST, **values: object) -> dict[str, object]:
    """Return what an agent reports of a card in a minute of which it knows only `values`."""
    return {"card": card, "minute": at, **NOTHING, "xids": [], **values}


def now() -> int:
    """Return the minute that it is."""
    return int(datetime.now(UTC).timestamp() // 60)


def have(card: Card, at: int = FIRST, xids: str = "", **values: object) -> None:
    """Have known `values` of a card in a minute."""
    CardMinute.objects.create(card=card, minute=at, xids=xids, **values)


# From the agent's report to the row


def test_a_minute_that_is_reported_is_kept_with_what_nobody_knows_left_open(host: Host, agent: Agent) -> None:
    agent.sync(minutes=[minute(1, now() - 1, use_mean=40, use_max=90, power_max_w=250, xids=[79, True, 13])])
    row = CardMinute.objects.get()
    assert (row.card.index, row.minute) == (1, now() - 1)
    assert (row.use_mean, row.use_max, row.power_max_w, row.memory_max_mib) == (40, 90, 250, None)
    assert row.xids == "79,13"


def test_a_minute_that_is_reported_again_changes_nothing(agent: Agent) -> None:
    at = now() - 1
    agent.sync(minutes=[minute(at=at, use_mean=40)])
    agent.sync(minutes=[minute(at=at, use_mean=50), minute(at=at - 1, use_mean=10)])
    kept = CardMinute.objects.order_by("minute").values_list("minute", "use_mean")
    assert list(kept) == [(at - 1, 10), (at, 40)]


def test_an_agent_that_measures_nothing_is_heard_as_before(agent: Agent) -> None:
    agent.sync()
    agent.sync(minutes=[])
    assert not CardMinute.objects.exists()


def test_minutes_to_come_minutes_of_long_ago_and_cards_that_are_not_there_are_left_out(agent: Agent) -> None:
    agent.sync(
        minutes=[
            minute(at=now() + 10),
            minute(at=now() - 15 * 24 * 60),
            minute(card=7, at=now()),
            minute(at=now(), use_max=1),
        ]
    )
    assert [row.use_max for row in CardMinute.objects.all()] == [1]


def test_a_value_that_no_row_can_hold_is_refused_by_its_name(agent: Agent) -> None:
    faults = agent.sync(status=400, minutes=[minute(use_max=-1), minute(power_max_w="much")])["errors"]
    assert [fault["field"] for fault in faults] == ["minutes[0].use_max", "minutes[1].power_max_w"]
    assert not CardMinute.objects.exists()


def test_the_minutes_of_all_cards_cost_two_statements(
    host: Host, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    document = words.report() | {"minutes": [minute(card, now()) for card in (0, 1)]}
    report = reports.read(document)
    with django_assert_num_queries(2):
        card_metrics.keep(host.pk, report.minutes, datetime.now(UTC))
    with django_assert_num_queries(0):
        card_metrics.keep(host.pk, [], datetime.now(UTC))


# From rows to lines


def test_a_line_has_a_value_for_each_minute_and_none_where_nothing_is_known(host: Host) -> None:
    card = host.cards.get(index=0)
    have(card, FIRST, use_mean=10, use_max=20, temperature_max_c=60)
    have(card, FIRST + 2, use_mean=30, memory_max_mib=4000)
    found = card_metrics.series([card.pk], START, START + timedelta(minutes=3))
    assert found.step_s == 60
    assert found.at == [int(START.timestamp()) + 60 * place for place in range(4)]
    line = found.cards[card.pk]
    assert line.use_mean == [10, None, 30, None]
    assert line.use_max == [20, None, None, None]
    assert line.memory_max_mib == [None, None, 4000, None]
    assert line.power_mean_w == [None] * 4


def test_over_a_long_time_means_are_averaged_and_the_most_is_kept(host: Host) -> None:
    card = host.cards.get(index=0)
    for place in range(6):
        have(card, FIRST + place, use_mean=place * 10, use_max=place * 15, outside=place % 2)
    found = card_metrics.series([card.pk], START, START + timedelta(minutes=5), points=2)
    line = found.cards[card.pk]
    assert (found.step_s, found.at) == (180, [int(START.timestamp()), int(START.timestamp()) + 180])
    assert (line.use_mean, line.use_max, line.outside) == ([10, 40], [30, 75], [1, 1])


def test_a_time_that_begins_within_a_step_has_no_minute_of_before(host: Host) -> None:
    card = host.cards.get(index=0)
    for place in range(5):
        have(card, FIRST + place, use_max=place)
    found = card_metrics.series(
        [card.pk], START + timedelta(minutes=1), START + timedelta(minutes=4), points=2
    )
    assert (found.step_s, found.at[0]) == (120, int(START.timestamp()))
    assert found.cards[card.pk].use_max == [1, 3, 4]


def test_xids_are_given_with_their_minutes(host: Host) -> None:
    card = host.cards.get(index=0)
    have(card, FIRST + 1, xids="13,79")
    line = card_metrics.series([card.pk], START, START + timedelta(hours=1)).cards[card.pk]
    at = int(START.timestamp()) + 60
    assert line.xids == [(at, 13), (at, 79)]


def test_a_card_of_which_nothing_is_known_has_an_empty_line_and_others_are_not_mixed_in(host: Host) -> None:
    silent, busy = host.cards.order_by("index")
    have(busy, use_max=99)
    found = card_metrics.series([silent.pk], START, START)
    assert list(found.cards) == [silent.pk]
    assert found.cards[silent.pk].use_max == [None]


def test_the_lines_of_all_cards_cost_two_queries(
    host: Host, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    cards = list(host.cards.values_list("pk", flat=True))
    with django_assert_num_queries(2):
        card_metrics.series(cards, START, START + timedelta(days=14))


# Old ones


def test_what_is_older_than_the_setting_is_removed(host: Host, settings: Settings) -> None:
    settings.CARD_METRICS_DAYS = 14
    for card in host.cards.all():
        for days in (0, 13, 15, 400):
            have(card, FIRST - days * 24 * 60)
    assert card_metrics.remove_old(START) == 4
    assert {(FIRST - row.minute) // 1440 for row in CardMinute.objects.all()} == {0, 13}


def test_zero_days_keep_everything(host: Host, settings: Settings, agent: Agent) -> None:
    settings.CARD_METRICS_DAYS = 0
    have(host.cards.get(index=0), 1)
    assert card_metrics.remove_old(START) == 0
    agent.sync(minutes=[minute(at=now() - 10_000)])
    assert CardMinute.objects.count() == 2


def test_the_hourly_clean_up_removes_it(host: Host) -> None:
    have(host.cards.get(index=0), 1)
    tasks.remove_old_card_metrics()
    assert not CardMinute.objects.exists()


# Faults: events, and cleared by operators


def cards(*states: str, fault: str = "") -> list[dict[str, Any]]:
    """Return two cards of these states, those that are not well with a reason."""
    return [
        words.card(
            index,
            state=state,
            reason="" if state == "ok" else "Xid 79",
            fault=fault if state == "broken" else "",
        )
        for index, state in enumerate(states)
    ]


def sync(agent: Agent, *states: str, fault: str = "") -> dict[str, Any]:
    """Report two cards of these states."""
    agent.seq += 1
    report = words.report(agent.seq) | {"cards": cards(*states, fault=fault)}
    answer = Client().post("/api/agent/sync/", report, "application/json", headers=agent.headers)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def events(host: Host) -> list[tuple[str, dict[str, Any]]]:
    """Return what happened to the cards of a host."""
    found = HostEvent.objects.filter(host=host, code__startswith="card_").order_by("pk")
    return list(found.values_list("code", "args"))


def test_cards_that_break_come_back_or_go_are_told_as_events_of_their_host(host: Host, agent: Agent) -> None:
    agent.sync()
    assert events(host) == []
    sync(agent, "broken", "broken", fault="f1")
    sync(agent, "broken", "broken", fault="f1")
    sync(agent, "ok", "external")
    sync(agent, "ok")
    assert events(host) == [
        ("card_broken", {"cards": "0, 1", "reason": "Xid 79"}),
        ("card_back", {"cards": "0", "reason": ""}),
        ("card_external", {"cards": "1", "reason": "Xid 79"}),
        ("card_missing", {"cards": "1", "reason": ""}),
    ]


def test_a_card_that_is_used_from_outside_by_turns_is_told_once_a_minute_and_that_it_is_so(
    host: Host, agent: Agent
) -> None:
    for _ in range(4):
        sync(agent, "ok", "external")
        sync(agent, "ok", "ok")
    once = [
        ("card_external", {"cards": "1", "reason": "Xid 79"}),
        ("card_back", {"cards": "1", "reason": ""}),
    ]
    flips = ("card_flips", {"cards": "1"})
    assert events(host) == [*once, flips]
    HostEvent.objects.update(at=timezone.now() - card_faults.FLIPS_IN)
    sync(agent, "ok", "external")
    assert events(host) == [*once, flips, once[0]]


def test_a_card_that_breaks_again_within_a_minute_is_told_each_time(host: Host, agent: Agent) -> None:
    for _ in range(2):
        sync(agent, "broken", "ok")
        sync(agent, "ok", "ok")
    assert [code for code, _ in events(host)] == ["card_broken", "card_back"] * 2


def test_a_fault_that_an_operator_clears_is_told_to_the_agent_until_it_reports_it_no_more(
    world: World, host: Host, agent: Agent
) -> None:
    operator = world.user("olga")
    first = sync(agent, "broken", "ok", fault="f1")
    assert first["cleared"] == []
    assert card_faults.clear(host.cards.values_list("pk", flat=True), operator.pk, "new cable") == 1
    told = sync(agent, "broken", "ok", fault="f1")
    assert told["cleared"] == ["f1"]
    assert told["version"] != first["version"]  # news: an agent that waits is answered at once
    assert sync(agent, "ok", "ok")["cleared"] == []
    event = HostEvent.objects.get(code="card_cleared")
    assert (event.actor, event.reason, event.args) == (
        operator,
        "new cable",
        {"cards": "0", "reason": "Xid 79"},
    )
    assert host.cards.get(index=0).state == "ok"


def test_a_fault_that_comes_anew_is_not_cleared_by_the_word_on_an_earlier_one(
    host: Host, agent: Agent
) -> None:
    sync(agent, "broken", "ok", fault="f1")
    card_faults.clear(host.cards.values_list("pk", flat=True), None)
    assert sync(agent, "broken", "ok", fault="f2")["cleared"] == []
    card_faults.clear(host.cards.values_list("pk", flat=True), None)
    assert Host.objects.get().cleared_faults == ["f2"]


def test_a_card_that_is_broken_only_as_long_as_it_is_seen_so_cannot_be_cleared(
    host: Host, agent: Agent
) -> None:
    sync(agent, "broken", "ok")
    assert card_faults.clear(host.cards.values_list("pk", flat=True), None) == 0
    assert events(host)[-1][0] == "card_broken"
