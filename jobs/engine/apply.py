"""Write a plan to the database: every verdict compare-and-set, in short transactions of whole decisions."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Max

from cluster import hints
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


def apply(plan: types.Plan, loaded: Loaded, fence: int) -> int:
    """Write the plan; return how many tasks were started, evicted or promoted. Raises lease.StaleHolder."""
    changed = _claims_and_evictions(plan, loaded, fence)
    changed += _starts(plan.starts, loaded, fence)
    changed += _promotions(plan.promotions, loaded, fence)
    _reasons(plan.waits, loaded, fence)
    if changed:
        hints.publish("cards")
    return changed


def _claims_and_evictions(plan: types.Plan, loaded: Loaded, fence: int) -> int:
    """Write each claim that is new or changed together with the evictions made for it, then the rest."""
    standing = {claim.task: claim for claim in loaded.snapshot.claims}
    wanted = {claim.task: claim for claim in plan.claims}
    evictions: dict[int | None, list[types.Evict]] = defaultdict(list)
    for evict in plan.evictions:
        evictions[evict.for_task].append(evict)
    changed = 0
    for task in sorted(standing.keys() - wanted.keys() - {start.task for start in plan.starts}):
        _drop_claim(task, fence)
    for task, claim in sorted(wanted.items()):
        if claim != standing.get(task) or task in evictions:
            changed += _claim(claim, evictions.pop(task, []), loaded, fence)
    for for_task in sorted(evictions, key=lambda task: task or 0):
        with transaction.atomic():
            lease.guard(fence)
            changed += _evict(evictions[for_task], loaded)
    return changed


def _drop_claim(task: int, fence: int) -> None:
    with transaction.atomic():
        lease.guard(fence)
        if Claim.objects.filter(task=task).delete()[0]:
            lifecycle.note([task], code="claim_dropped")


def _claim(claim: types.Claim, evictions: Sequence[types.Evict], loaded: Loaded, fence: int) -> int:
    with transaction.atomic():
        lease.guard(fence)
        # Its owner may have stopped or held it since the load: then nobody is evicted for it.
        if not Task.objects.select_for_update().filter(pk=claim.task, state=State.QUEUED).exists():
            return 0
        told = _evict(evictions, loaded)
        Claim.objects.update_or_create(
            task_id=claim.task,
            defaults={
                "gpu_type_id": claim.gpu_type,
                "task_class": claim.task_class,
                "hosts": claim.hosts,
                "made_at": _at(claim.made_at),
                "last_term_at": _at(claim.last_term_at) if claim.last_term_at is not None else None,
            },
        )
        return told


def _evict(evictions: Iterable[types.Evict], loaded: Loaded) -> int:
    """Tell victims to leave; one that ended or was stopped meanwhile is left as it is."""
    told = 0
    for evict in evictions:
        attempt = Attempt.objects.select_related("task").get(pk=loaded.attempts[evict.task])
        if evict.rule == "keeping":
            told += lifecycle.free(attempt, code="place_taken", args={"for": evict.for_task})
            continue
        end = lifecycle.End(outcome=Attempt.Outcome.EVICTED, code="evicted")
        told += lifecycle.order_end(
            attempt,
            State(loaded.states[evict.task]),
            end,
            to=State.EVICTING,
            evicted_for=evict.for_task,
            evict_rule=evict.rule,
        )
    return told


def _starts(starts: Sequence[types.Start], loaded: Loaded, fence: int) -> int:
    started = 0
    for chunk in _chunks(starts, CHUNK):
        try:
            started += _start(chunk, loaded, fence)
        except IntegrityError:
            # A card was leased or an attempt opened by someone else: each start for itself, so that one
            # of them cannot keep the others from starting. The next pass sees why.
            for start in chunk:
                started += _start_alone(start, loaded, fence)
    return started


def _start_alone(start: types.Start, loaded: Loaded, fence: int) -> int:
    try:
        return _start([start], loaded, fence)
    except IntegrityError as error:
        log.error("task %s was not started: %s", start.task, error)
        return 0


def _start(starts: Sequence[types.Start], loaded: Loaded, fence: int) -> int:
    """Open an attempt for each start whose task still waits, give it its cards, and tell the hosts."""
    now = _at(loaded.snapshot.now)
    with transaction.atomic():
        lease.guard(fence)
        ids = [start.task for start in starts]
        locked = Task.objects.select_for_update().filter(pk__in=ids, state=State.QUEUED).in_bulk()
        starts = [start for start in starts if start.task in locked]
        numbers = dict(
            Attempt.objects.filter(task__in=locked).values_list("task").annotate(last=Max("number"))
        )
        attempts = Attempt.objects.bulk_create(
            _new_attempt(start, locked[start.task], numbers.get(start.task, 0) + 1, now) for start in starts
        )
        where = specs.places(starts)
        agents.launch(
            [
                instance
                for start, attempt in zip(starts, attempts, strict=True)
                for instance in specs.members(locked[start.task], attempt.pk, attempt.number, start, where)
            ]
        )
        _move_started(starts, attempts, where, loaded)
        Claim.objects.filter(task__in=locked).delete()
    return len(starts)


def _new_attempt(start: types.Start, task: Task, number: int, now: datetime) -> Attempt:
    return Attempt(
        task=task,
        number=number,
        task_class=start.task_class,
        gpu_type_id=start.gpu_type,
        cards=sum(len(numbers) for numbers in start.numbers.values()),
        created_at=now,
    )


def _move_started(
    starts: Sequence[types.Start], attempts: Sequence[Attempt], where: specs.Places, loaded: Loaded
) -> None:
    attempt_of = {attempt.task_id: attempt.pk for attempt in attempts}
    each = {
        start.task: {
            "class": start.task_class,
            "gpu_type": loaded.snapshot.type_names[start.gpu_type],
            "hosts": {where.hosts[host][0]: list(numbers) for host, numbers in start.numbers.items()},
        }
        for start in starts
    }
    first = {attempt.task_id for attempt in attempts if attempt.number == 1}
    for ids, code in ((first, "started"), (attempt_of.keys() - first, "started_again")):
        lifecycle.move(
            ids,
            State.QUEUED,
            State.STARTING,
            code=code,
            attempts=attempt_of,
            each=each,
            fields={"ready_at": None},
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
    """Store the reasons that changed, one statement per reason."""
    groups: dict[int, tuple[Reason, list[int]]] = {}
    for task, reason in waits.items():
        if loaded.stored_reasons.get(task) != (reason.code, dict(reason.args)):
            groups.setdefault(id(reason), (reason, []))[1].append(task)
    for reason, tasks in groups.values():
        for chunk in _chunks(tasks, CHUNK * 5):
            with transaction.atomic():
                lease.guard(fence)
                waiting = Task.objects.waiting().filter(pk__in=chunk)
                waiting.update(reason_code=reason.code, reason_args=dict(reason.args))
                hints.publish("tasks", *(f"task.{task}" for task in chunk))


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=UTC)
