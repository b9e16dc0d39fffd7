"""Write a plan to the database: every verdict compare-and-set, in short transactions of whole decisions."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from django.db import transaction
from django.db.models import Max

from cluster import hints, rows
from cluster.executors import agents
from jobs import lifecycle
from jobs.engine import lease, specs
from jobs.engine.snapshot import Loaded
from jobs.models import Attempt, Claim, Task, TaskClass
from jobs.scheduling import types
from jobs.scheduling.reasons import Reason
from jobs.states import State

log = logging.getLogger(__name__)
T = TypeVar("T")
CHUNK = 100  # decisions per transaction: no submit or report waits longer than such a one takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """How many verdicts of a plan were written; the others came too late."""

    starts: int
    evictions: int
    promotions: int


def apply(plan: types.Plan, loaded: Loaded, fence: int) -> Applied:
    """Write the plan, and return how much of it came true. Raises lease.StaleHolder."""
    evictions = _claims_and_evictions(plan, loaded, fence)
    starts = _starts(plan.starts, loaded, fence)
    promotions = _promotions(plan.promotions, loaded, fence)
    _reasons(plan.waits, loaded, fence)
    if starts or evictions or promotions:
        hints.publish("cards")
    return Applied(starts=starts, evictions=evictions, promotions=promotions)


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
    decisions += [Decision(claim=None, evictions=tuple(rest)) for rest in evictions.values()]
    return sum(_decide(chunk, loaded, fence) for chunk in _chunks(decisions, CHUNK))


def _drop_claims(tasks: Sequence[int], fence: int) -> None:
    for chunk in _chunks(tasks, CHUNK):
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
        queued = Task.objects.select_for_update().filter(pk__in=ids, state=State.QUEUED).order_by("pk")
        waiting = set(queued.values_list("pk", flat=True))
        good = [row for row in decisions if row.claim is None or row.claim.task in waiting]
        told = _evict([evict for row in good for evict in row.evictions], loaded)
        Claim.objects.bulk_create(
            [_claim_row(claim) for claim in claims if claim.task in waiting],
            update_conflicts=True,
            unique_fields=["task"],
            update_fields=["gpu_type", "task_class", "hosts", "made_at", "last_term_at"],
        )
    return told


def _claim_row(claim: types.Claim) -> Claim:
    return Claim(
        task_id=claim.task,
        gpu_type_id=claim.gpu_type,
        task_class=claim.task_class,
        hosts=claim.hosts,
        made_at=_at(claim.made_at),
        last_term_at=_at(claim.last_term_at) if claim.last_term_at is not None else None,
    )


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


def _starts(starts: Sequence[types.Start], loaded: Loaded, fence: int) -> int:
    started = 0
    for chunk in _chunks(starts, CHUNK):
        try:
            started += _start(chunk, loaded, fence)
        except lease.StaleHolder:
            raise
        except Exception:
            # A card was leased or an attempt opened by someone else, or one cannot even be written: each
            # start for itself, so that it cannot keep the others from starting. The next pass sees why.
            for start in chunk:
                started += _start_alone(start, loaded, fence)
    return started


def _start_alone(start: types.Start, loaded: Loaded, fence: int) -> int:
    try:
        return _start([start], loaded, fence)
    except lease.StaleHolder:
        raise
    except Exception:
        log.exception("task %s was not started", start.task)
        return 0


def _start(starts: Sequence[types.Start], loaded: Loaded, fence: int) -> int:
    """Open an attempt for each start whose task still waits, give it its cards, and tell the hosts."""
    with transaction.atomic():
        lease.guard(fence)
        ids = [start.task for start in starts]
        queued = Task.objects.select_for_update().filter(pk__in=ids, state=State.QUEUED).order_by("pk")
        tasks = {task.pk: task for task in queued}
        starts = [start for start in starts if start.task in tasks]
        numbers = _open_attempts(starts, _at(loaded.snapshot.now))
        opened = Attempt.objects.filter(task__in=tasks, ended_at=None).values_list("task_id", "id")
        attempts: dict[int, int] = dict(opened)
        where = specs.places(starts)
        agents.launch(
            [
                member
                for start in starts
                for member in specs.members(
                    tasks[start.task], attempts[start.task], numbers[start.task], start, where
                )
            ]
        )
        _move_started(starts, attempts, numbers, where, loaded)
        Claim.objects.filter(task__in=tasks).delete()
    return len(starts)


def _open_attempts(starts: Sequence[types.Start], now: datetime) -> dict[int, int]:
    """Insert an attempt for each start; return their numbers by task."""
    earlier = Attempt.objects.filter(task__in=[start.task for start in starts]).values_list("task")
    last = dict(earlier.annotate(last=Max("number")))
    numbers = {start.task: last.get(start.task, 0) + 1 for start in starts}
    rows.insert(
        Attempt,
        [
            (
                start.task,
                numbers[start.task],
                start.task_class,
                start.gpu_type,
                sum(len(cards) for cards in start.numbers.values()),
            )
            for start in starts
        ],
        *("task", "number", "task_class", "gpu_type", "cards"),
        **{"created_at": now, "ending": "", "ending_code": "", "evict_rule": ""},
        **{"outcome": "", "outcome_code": "", "outcome_args": {}},
    )
    return numbers


def _move_started(
    starts: Sequence[types.Start],
    attempts: Mapping[int, int],
    numbers: Mapping[int, int],
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
    first = {task for task, number in numbers.items() if number == 1}
    fields = {"ready_at": None}
    for ids, code in ((first, "started"), (numbers.keys() - first, "started_again")):
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
    """Store the reasons that changed."""
    stored = loaded.stored_reasons
    changed = [task for task, reason in waits.items() if stored.get(task) != (reason.code, reason.args)]
    for chunk in _chunks(changed, CHUNK * 5):
        with transaction.atomic():
            lease.guard(fence)
            # One that was stopped meanwhile waits no more, and shows no reason to.
            waiting = Task.objects.waiting().select_for_update().filter(pk__in=chunk).order_by("pk")
            ids = list(waiting.values_list("pk", flat=True))
            values = {task: (waits[task].code, dict(waits[task].args)) for task in ids}
            rows.update_each(Task, values, "reason_code", "reason_args")
            hints.publish("tasks", *(f"task.{task}" for task in ids))


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
