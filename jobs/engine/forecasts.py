"""Estimated starts and places in line: worked out every so often, kept as one record per line, read in one query."""

import logging
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from cluster import clock
from jobs.engine import foresight, snapshot
from jobs.engine.epoch import Epoch
from jobs.engine.patience import Bounded
from jobs.models import Attempt, Forecast, Task, TaskClass, WaitingLine
from jobs.scheduling.types import Waiting
from jobs.simulation.forecast import Basis, Estimate
from jobs.simulation.forecast import Forecast as Foreseen
from jobs.simulation.lengths import Finished, Lengths
from jobs.states import State
from quotas.models import UsageRow

log = logging.getLogger(__name__)
LOOK_S = 20.0  # a look ahead takes at most so long …
REST = 3  # … and then rests for so many times as long as it took
LEAST_REST_S = 10.0
GIVEN_UP_S = 120.0  # one that said nothing for so long is taken for dead
STALE = timedelta(minutes=15)  # older records are not shown
RECENT = timedelta(days=30)
MOST_FINISHED = 10_000  # tasks that are looked at for how long others will take
UNKNOWN = 2**32 - 1  # in place of a start


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Where a waiting task stands, and when it starts."""

    position: int | None = None  # 1 is the first of its line; None: it stands in none yet
    of: int | None = None
    start: datetime | None = None
    basis: Basis | None = None  # None: nobody looked since it waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one look ahead did; milliseconds."""

    waiting: int
    passes: int
    load_ms: float
    look_ms: float
    write_ms: float


def run() -> Done | None:
    """Look ahead and keep what is seen; None where it is not time yet, or another process does so."""
    now = clock.now()
    Forecast.objects.get_or_create(pk=1, defaults={"next_at": now})
    due = Forecast.objects.filter(pk=1, next_at__lte=now)
    given_up_at = now + timedelta(seconds=GIVEN_UP_S)
    if not due.update(next_at=given_up_at):
        return None
    # The time until which it may look is the number of the look: another one has another.
    mine = Forecast.objects.filter(pk=1, next_at=given_up_at)
    began = time.perf_counter()
    done = _run(now, mine)
    took_s = time.perf_counter() - began
    rest = timedelta(seconds=max(LEAST_REST_S, REST * took_s))
    mine.update(next_at=clock.now() + rest, took_ms=took_s * 1000)
    return done


def _run(now: datetime, mine: QuerySet[Forecast]) -> Done | None:
    if not Task.objects.waiting().exists():
        _write(now, [], None, mine)
        return None
    marks = [time.perf_counter()]
    policy = snapshot.policy()
    loaded = snapshot.load(clock.seconds(), policy.fair_half_life_s)
    given = lengths()
    marks.append(time.perf_counter())
    try:
        found = foresight.look(loaded.snapshot, policy, given, LOOK_S)
    except foresight.Failed as error:
        log.error("no estimates of starts this time: %s", error)
        return None
    marks.append(time.perf_counter())
    _write(now, loaded.snapshot.waiting, found, mine)
    marks.append(time.perf_counter())
    load_ms, look_ms, write_ms = ((after - before) * 1000 for before, after in pairwise(marks))
    return Done(
        waiting=len(loaded.snapshot.waiting),
        passes=found.passes,
        load_ms=load_ms,
        look_ms=look_ms,
        write_ms=write_ms,
    )


def lengths() -> Lengths:
    """Return what is known of how long tasks run: from those that ended well lately, and from kept places."""
    rows = UsageRow.objects.filter(outcome=Attempt.Outcome.SUCCEEDED, ended_at__gt=clock.now() - RECENT)
    columns = rows.order_by("-ended_at").values_list("user_id", "cards", "seconds")[:MOST_FINISHED]
    kept = Attempt.objects.filter(ended_at=None, keep_until__isnull=False)
    return Lengths(
        (Finished(user=user, cards=cards, seconds=seconds) for user, cards, seconds in columns),
        dict(kept.values_list("task_id", Epoch(F("keep_until")))),
    )


# Records


def line_name(task_class: str, gpu_types: Iterable[int]) -> str:
    """Return the name of a line; an auto task stands in the one of elastic tasks."""
    kind = TaskClass.HIGH if task_class == TaskClass.HIGH else TaskClass.ELASTIC
    return f"{kind}:{','.join(map(str, sorted(set(gpu_types))))}"


def _write(
    now: datetime, waiting: Sequence[Waiting], found: Foreseen | None, mine: QuerySet[Forecast]
) -> None:
    """Replace all records in one transaction; none where this look was given up and another one began."""
    records = list(_records(waiting, found)) if found else []
    newest = max((task.id for task in waiting), default=0)
    with transaction.atomic():
        if not mine.filter(Bounded()).update(made_at=now, newest_task=newest):
            log.warning("a look ahead that took too long was given up")
            return
        WaitingLine.objects.exclude(name__in=[record.name for record in records]).delete()
        WaitingLine.objects.bulk_create(
            records,
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["made_at", "in_line", "tasks", "starts", "bases_of", "bases"],
        )


def _records(waiting: Sequence[Waiting], found: Foreseen) -> Iterable[WaitingLine]:
    order: dict[str, list[int]] = defaultdict(list)
    for (phase, gpu_types), ids in found.lines.items():
        order[line_name(phase, gpu_types)] += ids
    standing = {task for ids in order.values() for task in ids}
    gated: dict[str, list[int]] = defaultdict(list)
    for task in waiting:
        if task.id not in standing:
            gated[line_name(task.wanted, task.gpu_types)].append(task.id)
    for name in sorted({*order, *gated}):
        yield _record(name, order[name], gated[name], found)


def _record(name: str, standing: list[int], gated: list[int], found: Foreseen) -> WaitingLine:
    ids = standing + gated
    estimates = [found.estimates[task] for task in ids]
    numbers: dict[tuple[str, frozenset[tuple[str, float]]], int] = {}
    bases: list[tuple[str, Mapping[str, float]]] = []
    which = []
    for estimate in estimates:
        key = (estimate.basis.code, frozenset(estimate.basis.args.items()))
        if key not in numbers:
            numbers[key] = len(bases)
            bases.append((estimate.basis.code, estimate.basis.args))
        which.append(numbers[key])
    return WaitingLine(
        name=name,
        made_at=datetime.fromtimestamp(found.made_at, UTC),
        in_line=len(standing),
        tasks=struct.pack(f"<{len(ids)}Q", *ids),
        starts=struct.pack(f"<{len(ids)}I", *(_seconds(estimate, found.made_at) for estimate in estimates)),
        bases_of=struct.pack(f"<{len(ids)}H", *which),
        bases=bases,
    )


def _seconds(estimate: Estimate, made_at: float) -> int:
    return UNKNOWN if estimate.start is None else round(estimate.start - made_at)


def outlook(task: Task) -> Outlook | None:
    """Return where the task stands in its line and when it starts; None where it does not wait for cards.

    The records are as old as the last look ahead. A task that came since stands behind those that it knew.
    """
    if task.state != State.QUEUED:
        return None
    name = line_name(task.wanted_class, task.gpu_types)
    line = WaitingLine.objects.filter(name=name, made_at__gt=clock.now() - STALE).first()
    place = _find(bytes(line.tasks), task.pk) if line else None
    if line is None or place is None:
        return _newcomer(task, line)
    position, of = (place + 1, line.in_line) if place < line.in_line else (None, None)
    start, basis = _estimate(line, place)
    if basis.code == "gate":
        return Outlook()  # it was released since
    return Outlook(position=position, of=of, start=start, basis=basis)


def _find(ids: bytes, task_id: int) -> int | None:
    """Return at which place the id stands among the packed ones."""
    wanted = struct.pack("<Q", task_id)
    at = ids.find(wanted)
    while at % 8 and at > 0:
        at = ids.find(wanted, at + 1)
    return None if at < 0 else at // 8


def _estimate(line: WaitingLine, place: int) -> tuple[datetime | None, Basis]:
    (seconds,) = struct.unpack_from("<I", bytes(line.starts), place * 4)
    (which,) = struct.unpack_from("<H", bytes(line.bases_of), place * 2)
    code, args = line.bases[which]
    start = None if seconds == UNKNOWN else line.made_at + timedelta(seconds=seconds)
    # A start that was foreseen for a moment that is over by now is due with any of the next passes.
    return (None if start is None else max(start, clock.now())), Basis(code, args)


def _newcomer(task: Task, line: WaitingLine | None) -> Outlook:
    """Count the tasks of the line that came since the last look, and up to this one."""
    newest = Forecast.objects.filter(pk=1, made_at__gt=clock.now() - STALE).values_list("newest_task").first()
    known_to = newest[0] if newest else 0
    if task.pk <= known_to:
        return Outlook()  # it came back since: the next look finds its place
    classes = [TaskClass.HIGH] if task.wanted_class == TaskClass.HIGH else [TaskClass.ELASTIC, TaskClass.AUTO]
    came = Task.objects.filter(
        state=State.QUEUED, pk__gt=known_to, wanted_class__in=classes, gpu_types=task.gpu_types
    )
    counted = came.order_by().aggregate(before=Count("pk", filter=Q(pk__lte=task.pk)), all=Count("pk"))
    known = line.in_line if line else 0
    return Outlook(position=known + counted["before"], of=known + counted["all"])


def like_peers(asked: Waiting, waiting: Iterable[Waiting]) -> tuple[datetime | None, Basis] | None:
    """Return the estimate of the last to start of the waiting tasks that ask the same; None without any."""
    peers = {task.id for task in waiting if _shape(task) == _shape(asked) and not task.gate}
    line = WaitingLine.objects.filter(
        name=line_name(asked.wanted, asked.gpu_types), made_at__gt=clock.now() - STALE
    ).first()
    if line is None or not peers:
        return None
    ids = struct.unpack(f"<{len(line.tasks) // 8}Q", line.tasks)
    found = [_estimate(line, place) for place, task_id in enumerate(ids) if task_id in peers]
    starts = [start for start, _ in found if start is not None]
    if not found or len(starts) < len(found):
        return next(((None, basis) for start, basis in found if start is None), None)
    return max(starts), Basis("peers", {"peers": len(starts)})


def _shape(task: Waiting) -> tuple[object, ...]:
    return task.wanted, frozenset(task.gpu_types), task.host_num, task.host_gpu_num, task.region
