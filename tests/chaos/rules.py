"""PURE: what must hold of the rows at every moment, and what they must not do between two moments."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

from cluster import clock
from jobs.states import ACTIVE, TERMINAL, State, may_move
from tests.chaos.rows import Attempt, Event, Lease, Rows

HOUR = timedelta(hours=1)
APART = timedelta(seconds=clock.ANSWER_S)  # by how much the clocks of two servers may differ
CAPPED = frozenset({"victim", "slice"})  # the guarantee, and a host that drains, count for no cap


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What did not hold, of which tasks and hosts."""

    rule: str
    says: str
    tasks: frozenset[int] = field(default_factory=frozenset)
    hosts: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return f"{self.rule}: {self.says}"


def broken(rows: Rows, cap: int) -> Iterator[Violation]:
    """Give what does not hold in `rows`; `cap`: how often a task may be evicted in an hour."""
    yield from no_card_has_two_owners(rows)
    yield from no_host_gives_more_than_it_has(rows)
    yield from an_attempt_has_all_it_asked_for_or_nothing(rows)
    yield from who_holds_cards_has_one_open_attempt(rows)
    yield from every_ended_attempt_has_its_usage_row(rows)
    yield from states_move_as_they_may(rows)
    yield from what_was_stopped_starts_no_more(rows)
    yield from evictions_are_few(rows, cap)
    yield from every_eviction_is_for_somebody(rows)


def no_card_has_two_owners(rows: Rows) -> Iterator[Violation]:
    """I1: leases of a card follow each other as they were written, by the clocks of the servers that wrote them."""
    by_card: dict[int, list[Lease]] = defaultdict(list)
    for lease in rows.leases:
        by_card[lease.card].append(lease)
    tasks = {attempt.id: attempt.task for attempt in rows.attempts}
    for card, leases in by_card.items():
        for one, other in pairwise(sorted(leases, key=lambda lease: lease.id)):
            if one.released_at is None or one.released_at > other.leased_at + APART:
                both = frozenset(tasks[lease.gang] for lease in (one, other) if lease.gang in tasks)
                yield Violation(rule="I1", says=f"card {card} is leased twice: {one}, {other}", tasks=both)


def no_host_gives_more_than_it_has(rows: Rows) -> Iterator[Violation]:
    """I2: who has a card runs on its host, and no more are given than there are."""
    host_of = {card.id: card.host for card in rows.cards}
    there = Counter(card.host for card in rows.cards)
    runs_on = {instance.id: instance.host for instance in rows.instances}
    given: Counter[int] = Counter()
    for lease in rows.leases:
        if lease.instance in runs_on and runs_on[lease.instance] != host_of.get(lease.card):
            yield Violation(rule="I2", says=f"{lease} is of a card of another host")
        if lease.released_at is None and lease.card in host_of:
            given[host_of[lease.card]] += 1
    for host, number in given.items():
        if number > there[host]:
            name = rows.hosts.get(host, str(host))
            says = f"host {name} has {there[host]} cards and gave {number}"
            yield Violation(rule="I2", says=says, hosts=frozenset({name}))


def an_attempt_has_all_it_asked_for_or_nothing(rows: Rows) -> Iterator[Violation]:
    """I3: while an attempt is open it has every member and every card, afterwards it holds none."""
    ranks: dict[int, list[int]] = defaultdict(list)
    for instance in rows.instances:
        ranks[instance.gang].append(instance.rank)
    held = Counter(lease.gang for lease in rows.leases if lease.released_at is None)
    for attempt in rows.attempts:
        task = rows.tasks[attempt.task]
        if sorted(ranks[attempt.id]) != list(range(task.host_num)):
            yield _of(attempt, "I3", f"has the members {sorted(ranks[attempt.id])} of {task.host_num}")
        if attempt.ended_at is None:
            wanted = task.host_num * task.host_gpu_num
            if not wanted == attempt.cards == held[attempt.id]:
                yield _of(attempt, "I3", f"asked for {wanted} cards and holds {held[attempt.id]}")
        elif held[attempt.id]:
            yield _of(attempt, "I3", f"is over and still holds {held[attempt.id]} cards")


def who_holds_cards_has_one_open_attempt(rows: Rows) -> Iterator[Violation]:
    """I7 in the rows: a task is in a state that holds cards just while one attempt of it is open, the last."""
    by_task: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in rows.attempts:
        by_task[attempt.task].append(attempt)
    for task in rows.tasks.values():
        attempts = by_task[task.id]
        open_ones = [attempt.number for attempt in attempts if attempt.ended_at is None]
        last = [attempts[-1].number] if attempts and task.state in ACTIVE else []
        if open_ones != last or (task.state in ACTIVE) != bool(open_ones):
            yield _about(task.id, "I7", f"is {task.state}, and the attempts {open_ones} of it are open")
        if [attempt.number for attempt in attempts] != list(range(1, len(attempts) + 1)):
            yield _about(task.id, "I7", "has attempts that are not numbered one after the other")


def every_ended_attempt_has_its_usage_row(rows: Rows) -> Iterator[Violation]:
    """I8: one row for each attempt that is over, none for one that is not, and none below zero."""
    usage: dict[int, list[float]] = defaultdict(list)
    for row in rows.usage:
        usage[row.attempt].append(row.seconds)
    cards = {row.attempt: (row.task, row.cards, row.outcome) for row in rows.usage}
    for attempt in rows.attempts:
        found = usage[attempt.id]
        if len(found) != (attempt.ended_at is not None) or min(found, default=0.0) < 0:
            yield _of(attempt, "I8", f"has the usage rows {found} and ended at {attempt.ended_at}")
        elif found and cards[attempt.id] != (attempt.task, attempt.cards, attempt.outcome):
            yield _of(attempt, "I8", f"is told otherwise by its usage row: {cards[attempt.id]}")


def states_move_as_they_may(rows: Rows) -> Iterator[Violation]:
    """I9: each move goes on from the one before, along an edge, to the state that the task is in."""
    for task, moves in _moves(rows).items():
        if moves[0].old or moves[0].code != "submitted":
            yield _about(task, "I9", f"does not begin with its submission but with {moves[0]}")
        for one, other in pairwise(moves):
            if one.new != other.old:
                yield _about(task, "I9", f"was {one.new} and then moved from {other.old}: {other}")
            elif not may_move(State(other.old), State(other.new)):
                yield _about(task, "I9", f"moved from {other.old} to {other.new}: {other}")
        if moves[-1].new != rows.tasks[task].state:
            yield _about(task, "I9", f"is {rows.tasks[task].state} without an event that says so")
    for task in rows.tasks.keys() - _moves(rows).keys():
        yield _about(task, "I9", "has no event at all")


def what_was_stopped_starts_no_more(rows: Rows) -> Iterator[Violation]:
    """What its owner stopped ends, and never waits or starts again."""
    stopped: set[int] = set()
    for event in rows.events:
        if event.task in stopped and event.new in {State.QUEUED, State.STARTING, State.RUNNING}:
            yield _about(event.task, "I9", f"was stopped, and then: {event}")
        if event.code == "stop":
            stopped.add(event.task)


def evictions_are_few(rows: Rows, cap: int) -> Iterator[Violation]:
    """I10: no task is evicted more often in an hour than allowed, the guarantee apart."""
    times: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in rows.attempts:
        if attempt.evict_rule in CAPPED:
            times[attempt.task].append(attempt)
    for attempts in times.values():
        for first, last in zip(attempts, attempts[cap:], strict=False):
            if first.ending_at and last.ending_at and last.ending_at - first.ending_at < HOUR:
                yield _of(last, "I10", f"is one eviction more in an hour than {cap}")


def every_eviction_is_for_somebody(rows: Rows) -> Iterator[Violation]:
    """I6: while a victim leaves, a claim holds cards of its hosts for the task it was evicted for.

    Unless that task has moved since, its claim was dropped, which an event says, or a later plan made another.
    """
    claims = {claim.task: claim for claim in rows.claims}
    hosts: dict[int, set[int]] = defaultdict(set)
    for instance in rows.instances:
        hosts[instance.gang].add(instance.host)
    for attempt in rows.attempts:
        claimant = attempt.evicted_for
        if attempt.ended_at is not None or claimant is None or attempt.evict_rule == "slice":
            continue
        if claimant not in rows.tasks:
            continue  # it was over before what `rows` hold of those that are
        claim = claims.get(claimant)
        if claim is not None and hosts[attempt.id] & {int(host) for host in claim.hosts}:
            continue
        told = _told_to_leave(rows.events, attempt)
        if claim is not None and told is not None and claim.made_at > told.at:
            continue
        if not _moved_on(rows.events, claimant, told):
            says = f"leaves for task {claimant}, for which nothing is held there: {claim}"
            yield Violation(rule="I6", says=_said(attempt, says), tasks=frozenset({attempt.task, claimant}))


def _told_to_leave(events: Sequence[Event], victim: Attempt) -> Event | None:
    """Return when the victim was told so; not its `ending_at`: one that is stopped meanwhile is told once more."""
    told = [event for event in events if event.task == victim.task and event.new == State.EVICTING]
    return told[-1] if told else None


def _moved_on(events: Sequence[Event], claimant: int, told: Event | None) -> bool:
    """Say whether the claimant moved, or its claim was dropped, since the victim was told to leave."""
    since = told.id if told is not None else 0
    return any(
        event.task == claimant and event.id > since and (event.new or event.code == "claim_dropped")
        for event in events
    )


def grown_wrongly(before: Rows, after: Rows) -> Iterator[Violation]:
    """I2, I9: give what must not have come about between two moments."""
    missing = {card.id for card in before.cards if card.state != "ok"}
    missing &= {card.id for card in after.cards if card.state != "ok"}
    earlier = {lease.id for lease in before.leases}
    for lease in after.leases:
        if lease.card in missing and lease.id not in earlier and lease.released_at is None:
            yield Violation(rule="I2", says=f"a card that is not there was given: {lease}")
    for task in before.tasks.values():
        now = after.tasks.get(task.id)
        if task.state in TERMINAL and now is not None and now.state != task.state:
            yield _about(task.id, "I9", f"was {task.state}, which is final, and is {now.state}")
        if now is None and task.state not in TERMINAL:
            yield _about(task.id, "I9", "is gone")


Key = tuple[int, int]  # business, type


def beyond_quota(before: Rows, after: Rows, highest: Mapping[Key, int]) -> Iterator[Violation]:
    """I4: give the businesses that came to hold more than their quota; one that is lowered takes nothing away.

    `highest` are the quotas, the highest of late: a pass may have read one that was lowered before it wrote.
    """
    used, now = held_high(before), held_high(after)
    for key, cap in highest.items():
        if now[key] > cap and now[key] > used[key]:
            business, gpu_type = key
            tasks = frozenset(task.id for task in after.tasks.values() if task.business == business)
            says = f"business {business} holds {now[key]} cards of type {gpu_type}, quota {cap}"
            yield Violation(rule="I4", says=f"{says}; it held {used[key]}", tasks=tasks)


def quotas_of(rows: Rows) -> dict[Key, int]:
    """Return the quotas by business and type."""
    return {(row.business, row.gpu_type): row.cards for row in rows.quotas}


def highest_of(some: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    """Return the highest of several quotas each."""
    found: dict[Key, int] = {}
    for quotas in some:
        for key, cards in quotas.items():
            found[key] = max(found.get(key, 0), cards)
    return found


def held_high(rows: Rows) -> Counter[Key]:
    """Return the cards of the high attempts that are open, by business and type."""
    held: Counter[Key] = Counter()
    for attempt in rows.attempts:
        if attempt.ended_at is None and attempt.task_class == "high":
            held[attempt.business, attempt.gpu_type] += attempt.cards
    return held


def unsettled(rows: Rows) -> Iterator[Violation]:
    """Give what is not as it should be once everything has been calm: ends that are nobody's, pull-ups forgotten."""
    for task in rows.tasks.values():
        if task.state not in TERMINAL and task.state != State.HELD:
            yield _about(task.id, "I5", f"is still {task.state} ({task.reason_code or 'no reason'})")
        if task.state == State.EVICTED and task.pull_up:
            yield _about(task.id, "I9", "was evicted and is not pulled up")
    for instance in rows.instances:
        if instance.phase != "gone":
            yield Violation(rule="I7", says=f"nobody runs any more, but {instance}")
    for lease in rows.leases:
        if lease.released_at is None:
            yield Violation(rule="I7", says=f"nobody holds a card any more, but {lease}")
    if rows.claims:
        yield Violation(rule="I6", says=f"nobody waits any more, but {rows.claims}")


def _moves(rows: Rows) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in rows.events:
        if event.new:
            found[event.task].append(event)
    return found


def _about(task: int, rule: str, says: str) -> Violation:
    return Violation(rule=rule, says=f"task {task} {says}", tasks=frozenset({task}))


def _said(attempt: Attempt, says: str) -> str:
    return f"attempt {attempt.number} of task {attempt.task} {says}"


def _of(attempt: Attempt, rule: str, says: str) -> Violation:
    return Violation(rule=rule, says=_said(attempt, says), tasks=frozenset({attempt.task}))


def first(violations: Iterable[Violation]) -> Violation | None:
    """Return the first one."""
    return next(iter(violations), None)
