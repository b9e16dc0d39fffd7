"""Write a plan to the database: every verdict compare-and-set, in short transactions of whole decisions."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from django.db import transaction
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce

from cluster import hints, rows
from cluster.executors import agents
from jobs import lifecycle
from jobs.engine import lease, source_specs, specs
from jobs.engine.snapshot import Loaded
from jobs.models import Attempt, Claim, Task, TaskClass
from jobs.scheduling import types
from jobs.scheduling.reasons import Reason
from jobs.states import WAITING, State

log = logging.getLogger(__name__)
T = TypeVar("T")
# Members started, tasks evicted, and reasons, per transaction: no submit or report waits longer than one takes.
CHUNK, REASONS_CHUNK = 250, 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """How many verdicts of a plan were written; those that were missed came too late, or could not be."""

    starts: int
    evictions: int
    missed: int


def apply(plan: types.Plan, loaded: Loaded, policy: types.Policy, fence: int) -> Applied:
    """Write the plan, and return how much of it came true. Raises lease.StaleHolder."""
    evictions = _claims_and_evictions(plan, loaded, fence)
    starts = _starts(plan.starts, loaded, policy, fence)
    promotions = _promotions(plan.promotions, loaded, fence)
    _reasons(plan.waits, loaded, fence)
    done = starts + evictions + promotions
    if done:
        hints.publish("cards")
    missed = len(plan.starts) + len(plan.evictions) + len(plan.promotions) - done
    return Applied(starts=starts, evictions=evictions, missed=missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A claim (None: nobody's) with the evictions made for it: written together or not at all."""

    claim: types.Claim | None
    evictions: tuple[types.Evict, ...]


def _claims_and_evictions(plan: types.Plan, loaded: Loaded, fence: int) -> int:
    """Write each claim that is new or changed together with the evictions made for it, then the rest."""
    standing = {claim.task: claim for claim in loaded.snapshot.claims}
    wanted = {claim.task: claim for claim in plan.claims}
    _drop_claims(sorted(standing.keys() - wanted.keys() - {start.task for start in plan.starts}), fence)
    evictions: dict[int | None, list[types.Evict]] = defaultdict(list)
    for evict in plan.evictions:
        evictions[evict.for_task].append(evict)
    decisions = [
        Decision(claim=claim, evictions=tuple(evictions.pop(task, ())))
        for task, claim in sorted(wanted.items())
        if claim != standing.get(task) or task in evictions
    ]
    alone = [evict for rest in evictions.values() for evict in rest]
    decisions += [Decision(claim=None, evictions=(evict,)) for evict in alone]
    chunks = _chunks(decisions, CHUNK, weigh=lambda decision: max(1, len(decision.evictions)))
    return sum(_decide(chunk, loaded, fence) for chunk in chunks)


def _drop_claims(tasks: Sequence[int], fence: int) -> None:
    for chunk in _slices(tasks, CHUNK):
        with transaction.atomic():
            lease.guard(fence)
            dropped = list(Claim.objects.filter(task__in=chunk).values_list("task_id", flat=True))
            Claim.objects.filter(task__in=dropped).delete()
            lifecycle.note(dropped, code="claim_dropped")


def _decide(decisions: Sequence[Decision], loaded: Loaded, fence: int) -> int:
    """Write the decisions whose claimant still waits: for one that was stopped or held nobody is evicted."""
    with transaction.atomic():
        lease.guard(fence)
        claims = [decision.claim for decision in decisions if decision.claim is not None]
        ids = [claim.task for claim in claims]
        queued = Task.objects.select_for_update().filter(pk__in=rows.among(ids), state=State.QUEUED)
        waiting = set(queued.order_by("pk").values_list("pk", flat=True))
        good = [row for row in decisions if row.claim is None or row.claim.task in waiting]
        told = _evict([evict for row in good for evict in row.evictions], loaded)
        _drop_standing(waiting, loaded)
        _insert_claims([claim for claim in claims if claim.task in waiting])
    return told


def _drop_standing(tasks: Iterable[int], loaded: Loaded) -> None:
    """Delete the claims of those tasks that have one: only a pass makes them, so all were loaded."""
    standing = {claim.task for claim in loaded.snapshot.claims}.intersection(tasks)
    if standing:
        Claim.objects.filter(task__in=rows.among(standing)).delete()


def _insert_claims(claims: Sequence[types.Claim]) -> None:
    found = [
        (
            claim.task,
            claim.gpu_type,
            claim.task_class,
            dict(claim.hosts),
            _at(claim.made_at),
            _at(claim.last_term_at) if claim.last_term_at is not None else None,
        )
        for claim in claims
    ]
    rows.insert(Claim, found, "task", "gpu_type", "task_class", "hosts", "made_at", "last_term_at")


def _evict(evictions: Sequence[types.Evict], loaded: Loaded) -> int:
    """Tell victims to leave; one that ended or was stopped meanwhile is left as it is."""
    end = lifecycle.End(outcome=Attempt.Outcome.EVICTED, code="evicted")
    orders = [
        lifecycle.Order(
            task=evict.task,
            attempt=loaded.attempts[evict.task],
            state=State(loaded.states[evict.task]),
            end=end,
            evicted_for=evict.for_task,
            evict_rule=evict.rule,
        )
        for evict in evictions
        if evict.rule != "keeping"
    ]
    kept = [evict for evict in evictions if evict.rule == "keeping"]
    return len(lifecycle.order_ends(orders, to=State.EVICTING)) + sum(_take_place(e, loaded) for e in kept)


def _take_place(evict: types.Evict, loaded: Loaded) -> bool:
    """End the kept place of a task: nothing of it runs any more, so its cards are free at once."""
    attempt = Attempt.objects.select_related("task").get(pk=loaded.attempts[evict.task])
    return lifecycle.free(attempt, code="place_taken", args={"for": evict.for_task})


def _starts(starts: Sequence[types.Start], loaded: Loaded, policy: types.Policy, fence: int) -> int:
    where = specs.places(starts, policy.exit_grace_s)
    started = 0
    for chunk in _chunks(starts, CHUNK, weigh=lambda start: len(start.numbers)):
        try:
            started += _start(chunk, where, loaded, fence)
        except lease.StaleHolder:
            raise
        except Exception:
            # A card was leased or an attempt opened by someone else, or one cannot even be written: each
            # start for itself, so that it cannot keep the others from starting. The next pass sees why.
            started += sum(_start_alone(start, where, loaded, fence) for start in chunk)
    return started


def _start_alone(start: types.Start, where: specs.Places, loaded: Loaded, fence: int) -> int:
    try:
        return _start([start], where, loaded, fence)
    except lease.StaleHolder:
        raise
    except Exception:
        log.exception("task %s was not started", start.task)
        return 0


def _start(starts: Sequence[types.Start], where: specs.Places, loaded: Loaded, fence: int) -> int:
    """Open an attempt for each start whose task still waits, give it its cards, and tell the hosts."""
    with transaction.atomic():
        lease.guard(fence)
        tasks = _lock_queued([start.task for start in starts])
        starts = [start for start in starts if start.task in tasks]
        attempts = _open_attempts(starts, tasks, _at(loaded.snapshot.now))
        sources = source_specs.load({pk: task.config for pk, task in tasks.items()})
        agents.launch(
            [
                member
                for start in starts
                for member in specs.members(
                    tasks[start.task],
                    attempts[start.task],
                    start,
                    where,
                    sources.get(start.task, source_specs.NOTHING),
                )
            ]
        )
        _move_started(starts, tasks, attempts, where, loaded)
        _drop_standing(tasks, loaded)
    return len(starts)


def _lock_queued(ids: Sequence[int]) -> dict[int, specs.Startable]:
    """Return those of the tasks that still wait, and keep them from being stopped or held meanwhile."""
    earlier = Attempt.objects.filter(task=OuterRef("pk")).order_by("-number").values("number")
    queued = Task.objects.select_for_update().filter(pk__in=rows.among(ids), state=State.QUEUED)
    found = queued.order_by("pk").values_list(
        "pk", "business_id", "task_flag", "config", "secrets", Coalesce(Subquery(earlier[:1]), 0) + 1
    )
    return {row[0]: specs.Startable(*row) for row in found}


def _open_attempts(
    starts: Sequence[types.Start], tasks: Mapping[int, specs.Startable], now: datetime
) -> dict[int, int]:
    """Insert an attempt for each start; return their ids by task."""
    found = [
        (
            start.task,
            tasks[start.task].attempt_number,
            start.task_class,
            start.gpu_type,
            sum(len(cards) for cards in start.numbers.values()),
        )
        for start in starts
    ]
    return rows.insert_keyed(
        Attempt,
        found,
        "task",
        *("task", "number", "task_class", "gpu_type", "cards"),
        **{"created_at": now, "ending": "", "ending_code": "", "evict_rule": ""},
        **{"outcome": "", "outcome_code": "", "outcome_args": {}},
    )


def _move_started(
    starts: Sequence[types.Start],
    tasks: Mapping[int, specs.Startable],
    attempts: Mapping[int, int],
    where: specs.Places,
    loaded: Loaded,
) -> None:
    each = {
        start.task: {
            "class": start.task_class,
            "gpu_type": loaded.snapshot.type_names[start.gpu_type],
            "hosts": {where.hosts[host][0]: list(cards) for host, cards in start.numbers.items()},
        }
        for start in starts
    }
    first = {pk for pk, task in tasks.items() if task.attempt_number == 1}
    fields = {"ready_at": None}
    for ids, code in ((first, "started"), (tasks.keys() - first, "started_again")):
        if ids:
            lifecycle.move(
                ids, State.QUEUED, State.STARTING, code=code, attempts=attempts, each=each, fields=fields
            )


def _promotions(promotions: Iterable[types.Promote], loaded: Loaded, fence: int) -> int:
    promoted = 0
    for promote in promotions:
        with transaction.atomic():
            lease.guard(fence)
            attempt = loaded.attempts[promote.task]
            elastic = Attempt.objects.filter(
                pk=attempt, ended_at=None, ending="", task_class=TaskClass.ELASTIC
            )
            if elastic.update(task_class=TaskClass.HIGH):
                lifecycle.note([promote.task], code="promoted", attempts={promote.task: attempt})
                promoted += 1
    return promoted


def _reasons(waits: Mapping[int, Reason], loaded: Loaded, fence: int) -> None:
    """Store the reasons that changed, of the tasks that still wait: one that was stopped shows no reason to."""
    stored = loaded.stored_reasons
    changed = [task for task, reason in waits.items() if stored.get(task) != (reason.code, reason.args)]
    for chunk in _slices(sorted(changed), REASONS_CHUNK):
        with transaction.atomic():
            lease.guard(fence)
            values = {task: (waits[task].code, dict(waits[task].args)) for task in chunk}
            told = rows.update_each(Task, values, "reason_code", "reason_args", where={"state": WAITING})
            hints.publish("tasks", *(f"task.{task}" for task in sorted(told)))


def _slices(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    return (items[at : at + most] for at in range(0, len(items), most))


def _chunks(items: Iterable[T], most: int, weigh: Callable[[T], int]) -> Iterator[list[T]]:
    """Cut the items into lists of at most so much weight; one that weighs more is alone."""
    chunk: list[T] = []
    weight = 0
    for item in items:
        own = weigh(item)
        if chunk and weight + own > most:
            yield chunk
            chunk, weight = [], 0
        chunk.append(item)
        weight += own
    if chunk:
        yield chunk


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
