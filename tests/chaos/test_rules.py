"""Each rule says nothing of rows that are right, and finds what is wrong with those that are not."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.chaos import rules
from tests.chaos.rows import (
    Attempt,
    Card,
    Claim,
    Event,
    Instance,
    Lease,
    Quota,
    Rows,
    Task,
    Usage,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CAP = 2


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def good() -> Rows:
    """Return task 1, evicted once for task 2 and succeeded then, and task 2, a gang of two that runs."""
    return Rows(
        tasks={
            1: Task(1, "succeeded", "elastic", 5, 1, 1, True, None, ""),
            2: Task(2, "running", "high", 6, 2, 1, False, None, ""),
        },
        attempts=(
            Attempt(11, 1, 1, "elastic", 7, 1, at(0), at(9), "evicted", at(5), "evicted", 2, "victim", 5),
            Attempt(12, 1, 2, "elastic", 7, 1, at(20), at(30), "", None, "succeeded", None, "", 5),
            Attempt(21, 2, 1, "high", 7, 2, at(10), None, "", None, "", None, "", 6),
        ),
        instances=(
            Instance("a", 1, 11, 0, "gone", "", None),
            Instance("b", 1, 12, 0, "gone", "", 0),
            Instance("c", 1, 21, 0, "running", "", None),
            Instance("d", 2, 21, 1, "running", "", None),
        ),
        leases=(
            Lease(1, 101, "a", 11, at(0), at(9)),
            Lease(2, 102, "b", 12, at(20), at(30)),
            Lease(3, 101, "c", 21, at(10), None),
            Lease(4, 201, "d", 21, at(10), None),
        ),
        cards=(Card(101, 1, 0, "ok"), Card(102, 1, 1, "ok"), Card(201, 2, 0, "ok")),
        events=(
            Event(1, 1, at(0), "", "queued", "submitted", {}),
            Event(2, 1, at(0), "queued", "starting", "started", {}),
            Event(3, 1, at(5), "starting", "evicting", "evicted", {}),
            Event(4, 1, at(9), "evicting", "queued", "evicted", {}),
            Event(5, 1, at(20), "queued", "starting", "started_again", {}),
            Event(6, 1, at(30), "starting", "succeeded", "succeeded", {}),
            Event(7, 2, at(4), "", "queued", "submitted", {}),
            Event(8, 2, at(10), "queued", "starting", "started", {}),
            Event(9, 2, at(11), "starting", "running", "running", {}),
        ),
        usage=(Usage(11, 1, 1, 9.0, "evicted"), Usage(12, 1, 1, 10.0, "succeeded")),
        quotas=(Quota(6, 7, 4),),
        hosts={1: "h1", 2: "h2"},
    )


def said(found: Iterator[rules.Violation]) -> list[str]:
    return [violation.rule for violation in found]


def test_nothing_is_said_of_rows_that_are_right() -> None:
    assert said(rules.broken(good(), CAP)) == []
    assert said(rules.grown_wrongly(good(), good())) == []


def with_attempt(rows: Rows, pk: int, **changes: object) -> Rows:
    changed = tuple(replace(row, **changes) if row.id == pk else row for row in rows.attempts)  # type: ignore[arg-type]  # by name
    return replace(rows, attempts=changed)


def with_lease(rows: Rows, pk: int, **changes: object) -> Rows:
    changed = tuple(replace(row, **changes) if row.id == pk else row for row in rows.leases)  # type: ignore[arg-type]  # by name
    return replace(rows, leases=changed)


def with_event(rows: Rows, pk: int, **changes: object) -> Rows:
    changed = tuple(replace(row, **changes) if row.id == pk else row for row in rows.events)  # type: ignore[arg-type]  # by name
    return replace(rows, events=changed)


def in_state(rows: Rows, task: int, state: str) -> Rows:
    return replace(rows, tasks={**rows.tasks, task: replace(rows.tasks[task], state=state)})


def evicted_again(rows: Rows) -> Rows:
    """Return the rows with two evictions of task 1 more, within the hour."""
    more = tuple(
        replace(rows.attempts[0], id=pk, number=number, ending_at=at(60 * number))
        for pk, number in ((13, 3), (14, 4))
    )
    return replace(rows, attempts=(*rows.attempts, *more))


BROKEN: dict[str, tuple[str, Callable[[Rows], Rows]]] = {
    "a card with two open leases": ("I1", lambda rows: with_lease(rows, 1, released_at=None)),
    "a card given before it was given back": ("I1", lambda rows: with_lease(rows, 3, leased_at=at(8))),
    "a card of another host": ("I2", lambda rows: with_lease(rows, 4, card=102)),
    "more cards given than there are": ("I2", lambda rows: replace(rows, cards=rows.cards[:1])),
    "a member too few": ("I3", lambda rows: replace(rows, instances=rows.instances[:-1])),
    "a card too few": ("I3", lambda rows: with_lease(rows, 4, released_at=at(12))),
    "cards held after the end": ("I3", lambda rows: with_lease(rows, 2, released_at=None)),
    "a running task without an attempt": ("I7", lambda rows: with_attempt(rows, 21, ended_at=at(12))),
    "an ended task with an open attempt": ("I7", lambda rows: with_attempt(rows, 12, ended_at=None)),
    "an attempt that was left out": ("I7", lambda rows: with_attempt(rows, 12, number=3)),
    "no usage row": ("I8", lambda rows: replace(rows, usage=rows.usage[1:])),
    "two usage rows": ("I8", lambda rows: replace(rows, usage=(*rows.usage, rows.usage[0]))),
    "usage below zero": ("I8", lambda rows: replace(rows, usage=(Usage(11, 1, 1, -1.0, "evicted"),))),
    "usage of other cards": ("I8", lambda rows: replace(rows, usage=(Usage(11, 1, 2, 9.0, "evicted"),))),
    "a move along no edge": ("I9", lambda rows: with_event(rows, 5, new="held")),
    "a move that begins elsewhere": ("I9", lambda rows: with_event(rows, 6, old="running")),
    "a state without its event": ("I9", lambda rows: in_state(rows, 1, "failed")),
    "no submission": ("I9", lambda rows: replace(rows, events=rows.events[1:])),
    "a start after a stop": ("I9", lambda rows: with_event(rows, 4, code="stop")),
    "too many evictions in an hour": ("I10", evicted_again),
    "an eviction for nobody": ("I6", lambda rows: _still_leaving(rows)),
}


def _still_leaving(rows: Rows) -> Rows:
    """Return the rows as they would be if the victim had not left yet and its claimant held nothing."""
    rows = replace(
        with_attempt(rows, 11, ended_at=None),
        events=(replace(rows.events[6], id=0), *rows.events[:3]),
        attempts=(replace(rows.attempts[0], ended_at=None, outcome=""),),
        instances=rows.instances[:1],
        leases=(replace(rows.leases[0], released_at=None),),
        usage=(),
    )
    return in_state(in_state(rows, 1, "evicting"), 2, "queued")


@pytest.mark.parametrize("case", BROKEN)
def test_it_is_found(case: str) -> None:
    rule, broken = BROKEN[case]
    assert rule in said(rules.broken(broken(good()), CAP))


@pytest.mark.parametrize(
    ("leased_at", "found"), [(10.0, []), (9.0, []), (8.81, []), (8.79, ["I1"]), (-0.1, ["I1"])]
)
def test_a_card_is_given_after_it_was_given_back_as_far_as_the_clocks_of_two_servers_agree(
    leased_at: float, found: list[str]
) -> None:
    rows = with_lease(good(), 3, leased_at=at(leased_at))
    assert said(rules.no_card_has_two_owners(rows)) == found


def test_a_lease_that_was_over_at_once_comes_before_the_next_whose_server_is_behind() -> None:
    short = with_lease(with_lease(good(), 1, leased_at=at(8.95)), 3, leased_at=at(8.85))
    assert said(rules.no_card_has_two_owners(short)) == []


def test_an_eviction_for_whom_cards_are_held_is_right() -> None:
    rows = replace(_still_leaving(good()), claims=(Claim(2, {"1": 1, "2": 1}, at(5)),))
    assert said(rules.broken(rows, CAP)) == []
    elsewhere = replace(rows, claims=(Claim(2, {"2": 1}, at(5)),))
    assert said(rules.broken(elsewhere, CAP)) == ["I6"]
    planned_anew = replace(rows, claims=(Claim(2, {"2": 1}, at(6)),))
    assert said(rules.broken(planned_anew, CAP)) == []


def test_an_eviction_whose_claim_was_dropped_is_right_also_once_its_victim_is_stopped() -> None:
    rows = _still_leaving(good())
    dropped = (*rows.events, Event(20, 2, at(7), "", "", "claim_dropped", {}))
    assert said(rules.broken(replace(rows, events=dropped), CAP)) == []
    stopped = (*dropped, Event(21, 1, at(8), "evicting", "stopping", "stop", {}))
    rows = with_attempt(in_state(rows, 1, "stopping"), 11, ending_at=at(8))
    assert said(rules.broken(replace(rows, events=stopped), CAP)) == []


def test_an_eviction_for_somebody_who_was_over_long_ago_is_right() -> None:
    rows = _still_leaving(good())
    without = replace(rows, tasks={1: rows.tasks[1]}, events=rows.events[1:])
    assert said(rules.broken(without, CAP)) == []


def test_evictions_that_the_guarantee_needed_count_for_no_cap() -> None:
    rows = evicted_again(good())
    rows = replace(rows, attempts=tuple(replace(row, evict_rule="guarantee") for row in rows.attempts))
    assert "I10" not in said(rules.evictions_are_few(rows, CAP))


def test_more_high_cards_than_the_quota_is_found_and_a_lowered_quota_is_not() -> None:
    after = good()
    before = replace(after, attempts=after.attempts[:2])
    assert said(rules.beyond_quota(before, after, {(6, 7): 1})) == ["I4"]
    assert said(rules.beyond_quota(before, after, rules.quotas_of(after))) == []
    assert said(rules.beyond_quota(after, after, {(6, 7): 1})) == []
    assert rules.highest_of([{(6, 7): 1}, {(6, 7): 4}, {(6, 7): 0, (5, 7): 2}]) == {(6, 7): 4, (5, 7): 2}


def test_a_card_that_is_missing_must_not_be_given() -> None:
    missing = tuple(replace(card, state="missing") if card.id == 201 else card for card in good().cards)
    after = replace(good(), cards=missing)
    assert said(rules.grown_wrongly(replace(after, leases=after.leases[:3]), after)) == ["I2"]
    assert said(rules.grown_wrongly(after, after)) == []


def test_an_end_is_final_and_nothing_that_goes_on_disappears() -> None:
    assert said(rules.grown_wrongly(good(), in_state(good(), 1, "queued"))) == ["I9"]
    assert said(rules.grown_wrongly(good(), replace(good(), tasks={1: good().tasks[1]}))) == ["I9"]


def test_what_is_still_there_at_the_end_is_found() -> None:
    assert set(said(rules.unsettled(good()))) == {"I5", "I7"}
    over = in_state(replace(good(), leases=good().leases[:2], instances=good().instances[:2]), 2, "held")
    assert said(rules.unsettled(over)) == []
    assert said(rules.unsettled(replace(over, claims=(Claim(2, {"1": 1}, at(5)),)))) == ["I6"]
    assert said(rules.unsettled(in_state(over, 1, "evicted"))) == ["I9"]
