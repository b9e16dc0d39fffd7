"""The life of a task, move by move: compare-and-set on its state, an event each, attempts closed."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count

from cluster import clock, hints, rows
from cluster.executors import agents
from jobs.models import Attempt, Claim, Task, TaskEvent
from jobs.scheduling import policy
from jobs.states import TERMINAL, State, may_move
from quotas import audit
from quotas.access import AnyUser
from quotas.models import UsageRow

KEEP_FOR = timedelta(minutes=30)  # how long `keep_alive` keeps a place
FAILED_AT_ONCE = timedelta(seconds=policy.FAILED_AT_ONCE_S)  # or before it ran: it blames its hosts

Args = Mapping[str, Any]


class IllegalMove(Exception):
    """The table of moves does not know this one: a fault of the program, not of a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an attempt ended: its outcome, the code of why, and the numbers and names in that."""

    outcome: str  # of Attempt.Outcome
    code: str
    args: Args = field(default_factory=dict)


def move(
    task_ids: Iterable[int],
    old: State,
    new: State,
    *,
    code: str,
    args: Args | None = None,
    actor: AnyUser | None = None,
    attempts: Mapping[int, int] | None = None,
    each: Mapping[int, Args] | None = None,
    fields: Mapping[str, object] | None = None,
) -> set[int]:
    """Move the tasks that are still `old` to `new`, with an event each; return the ids that moved.

    `attempts` and `each` name the attempt and further args of a task in its event; `fields` are set with
    the state. Runs in the caller's transaction: the rows stay locked until it ends. More than one at a time
    only under the lease of the pass: two who move many could lock each other out.
    """
    if not may_move(old, new):
        raise IllegalMove(f"{old} → {new}")
    now = clock.now()
    values: dict[str, Any] = {**(fields or {}), "state": new}
    if new in TERMINAL:
        values["ended_at"] = now
    if new != State.QUEUED:
        values |= {"reason_code": "", "reason_args": {}}
    moved = rows.update(Task, task_ids, {"state": [old]}, **values)
    note(moved, code=code, args=args, actor=actor, attempts=attempts, each=each, old=old, new=new, now=now)
    return moved


def note(
    task_ids: Iterable[int],
    *,
    code: str,
    args: Args | None = None,
    actor: AnyUser | None = None,
    attempts: Mapping[int, int] | None = None,
    each: Mapping[int, Args] | None = None,
    old: str = "",
    new: str = "",
    now: datetime | None = None,
    wake: bool = False,
) -> None:
    """Write an event row for each task, and say that it changed; `wake`: and ask for a pass."""
    ids = sorted(task_ids)
    if not ids:
        return
    at = now or clock.now()
    actor_id = actor.pk if actor is not None else None
    rows.insert(
        TaskEvent,
        [
            (task_id, (attempts or {}).get(task_id), {**(args or {}), **(each or {}).get(task_id, {})})
            for task_id in ids
        ],
        *("task", "attempt", "args"),
        **{"at": at, "old_state": str(old), "new_state": str(new), "code": code, "actor": actor_id},
    )
    if actor is not None:
        audit.note_many(f"task.{code}", [(task_id, "") for task_id in ids], kind="task", by=actor)
    # The first page of whoever submits has one task more; of those that are on it, it hears one by one.
    owner = [f"mine.{actor_id}"] if code == "submitted" else []
    hints.publish("tasks", *owner, *(f"task.{task_id}" for task_id in ids), wake=wake)


def run_all(attempts: Mapping[int, int]) -> set[int]:
    """Note that every instance of these starting attempts (by task) runs; return the tasks that moved."""
    with transaction.atomic():
        moved = move(attempts, State.STARTING, State.RUNNING, code="running", attempts=attempts)
        rows.update(Attempt, [attempts[task] for task in moved], {}, running_at=clock.now())
    return moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An open attempt that is to end, and for whom and by which rule where it is evicted."""

    task: int
    attempt: int
    state: State  # where the task is believed to be
    end: End
    evicted_for: int | None = None
    evict_rule: str = ""

    @property
    def args(self) -> Args:
        """Return what the event says of it."""
        more = {"for": self.evicted_for, "rule": self.evict_rule}
        return {**self.end.args, **{name: value for name, value in more.items() if value}}


def order_ends(
    orders: Iterable[Order], *, to: State = State.STOPPING, actor: AnyUser | None = None
) -> set[int]:
    """Tell every instance of these attempts to end, and note what each is to end as.

    Returns the tasks that were told; one that is no longer in the state of its order is left as it is.
    """
    groups: dict[tuple[State, str], dict[int, Order]] = defaultdict(dict)
    for order in orders:
        groups[order.state, order.end.code][order.task] = order
    told: dict[int, Order] = {}
    with transaction.atomic(savepoint=False):
        for (state, code), group in sorted(groups.items()):
            attempts = {task: order.attempt for task, order in group.items()}
            each = {task: order.args for task, order in group.items()}
            moved = move(group, state, to, code=code, actor=actor, attempts=attempts, each=each)
            told |= {task: group[task] for task in moved}
        if told:
            _write_orders(told.values())
            agents.stop([order.attempt for order in told.values()])
            hints.wake_pass()
    return set(told)


def _write_orders(orders: Collection[Order]) -> None:
    now = clock.now()
    ends: dict[int, tuple[object, ...]] = {}
    evictions: dict[int, tuple[object, ...]] = {}
    for order in orders:
        end = (order.end.outcome, order.end.code, now, dict(order.end.args))
        if order.evict_rule:
            evictions[order.attempt] = (*end, order.evicted_for, order.evict_rule)
        else:  # one that is stopped while it leaves was evicted all the same: for whom, and by which rule
            ends[order.attempt] = end
    names = ("ending", "ending_code", "ending_at", "outcome_args")
    rows.update_each(Attempt, ends, *names)
    rows.update_each(Attempt, evictions, *names, "evicted_for", "evict_rule")


def order_end(attempt: Attempt, state: State, end: End, *, actor: AnyUser | None = None) -> bool:
    """Tell one attempt to end; returns False, and changes nothing, where its task is no longer in `state`."""
    order = Order(task=attempt.task_id, attempt=attempt.pk, state=state, end=end)
    return bool(order_ends([order], actor=actor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """An attempt (with its task) whose last process is gone, and how it ended."""

    attempt: Attempt
    state: State  # where the task is believed to be
    end: End
    blame: frozenset[int] = frozenset()  # hosts that a next attempt should avoid

    def failed_at_once(self, now: datetime) -> bool:
        """Say whether it failed so soon that this speaks against the hosts that it blames."""
        at_once = self.attempt.running_at is None or now - self.attempt.created_at < FAILED_AT_ONCE
        return self.end.outcome == Attempt.Outcome.FAILED and at_once


def close_all(closings: Iterable[Closing], *, backoff_s: float) -> set[int]:
    """Close attempts: free their cards, write their usage, move their tasks on; return the tasks that moved.

    One whose task is no longer in its state is left as it is.
    """
    now = clock.now()
    by_task = {closing.attempt.task_id: closing for closing in closings}
    groups: dict[tuple[State, State, str], list[int]] = defaultdict(list)
    closed: set[int] = set()
    with transaction.atomic():
        earlier = _earlier_ends(by_task)
        for task, closing in by_task.items():
            after = _after(closing.attempt.task, closing.end, earlier[task])
            groups[closing.state, after, closing.end.code].append(task)
        for (old, new, code), tasks in sorted(groups.items()):
            attempts = {task: by_task[task].attempt.pk for task in tasks}
            each = {task: by_task[task].end.args for task in tasks}
            moved = move(tasks, old, new, code=code, attempts=attempts, each=each)
            closed |= moved
            if new == State.QUEUED:
                again = {task: _again(by_task[task], earlier[task], backoff_s, now) for task in moved}
                rows.update_each(Task, again, "queued_at", "ready_at", "avoid_hosts")
        if closed:
            _write_ends([(by_task[task].attempt, by_task[task].end) for task in sorted(closed)], now)
    return closed


def _earlier_ends(tasks: Iterable[int]) -> dict[int, Counter[str]]:
    """Return how often attempts of each task ended with each outcome."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    ended = Attempt.objects.filter(task__in=rows.among(tasks), ended_at__isnull=False).order_by()
    for task, outcome, count in ended.values_list("task", "outcome").annotate(Count("pk")):
        found[task][outcome] = count
    return found


def _again(
    closing: Closing, earlier: Counter[str], backoff_s: float, now: datetime
) -> tuple[datetime, datetime, list[int]]:
    """Return when the task waits from, when it may start once more, and the hosts that it avoids then."""
    wait_s = policy.backoff_s(backoff_s, earlier[closing.end.outcome])
    avoided = closing.attempt.task.avoid_hosts
    if closing.failed_at_once(now):
        avoided = sorted({*avoided, *closing.blame})
    return now, now + timedelta(seconds=wait_s), avoided


def keep(attempt: Attempt, state: State, end: End) -> bool:
    """Keep the place of an attempt that ended by itself: its cards stay leased until `keep_until`."""
    with transaction.atomic():
        args = {**end.args, "outcome": end.outcome}
        if not move(
            [attempt.task_id],
            state,
            State.KEEPING,
            code="keep",
            args=args,
            attempts={attempt.task_id: attempt.pk},
        ):
            return False
        Attempt.objects.filter(pk=attempt.pk).update(
            keep_until=clock.now() + KEEP_FOR,
            outcome=end.outcome,
            outcome_code=end.code,
            outcome_args=dict(end.args),
        )
    return True


def free(attempt: Attempt, *, code: str, actor: AnyUser | None = None, args: Args | None = None) -> bool:
    """End a kept place: the task ends as its attempt did."""
    end = End(outcome=attempt.outcome, code=attempt.outcome_code, args=attempt.outcome_args)
    after = State.SUCCEEDED if end.outcome == Attempt.Outcome.SUCCEEDED else State.FAILED
    with transaction.atomic():
        attempts = {attempt.task_id: attempt.pk}
        if not move(
            [attempt.task_id], State.KEEPING, after, code=code, args=args, actor=actor, attempts=attempts
        ):
            return False
        _write_ends([(attempt, end)], clock.now())
    return True


def _write_ends(ended: Collection[tuple[Attempt, End]], now: datetime) -> None:
    ends = {attempt.pk: (now, end.outcome, end.code, dict(end.args)) for attempt, end in ended}
    rows.update_each(Attempt, ends, "ended_at", "outcome", "outcome_code", "outcome_args")
    agents.release(list(ends))
    rows.insert(
        UsageRow,
        [
            (
                attempt.pk,
                attempt.task_id,
                attempt.task.business_id,
                attempt.task.user_id,
                attempt.gpu_type_id,
                attempt.task_class,
                attempt.cards,
                attempt.created_at,
                max(0.0, (now - attempt.created_at).total_seconds()),
                end.outcome,
            )
            for attempt, end in ended
        ],
        *("attempt", "task", "business", "user", "gpu_type", "task_class", "cards", "started_at"),
        *("seconds", "outcome"),
        ended_at=now,
    )
    Claim.objects.filter(task__in=rows.among([attempt.task_id for attempt, _ in ended])).delete()
    hints.publish("cards")
    hints.wake_pass()


def _after(task: Task, end: End, earlier: Counter[str]) -> State:
    """Say where a task goes once its attempt ended so; `earlier` counts how its attempts ended before."""
    outcome = Attempt.Outcome(end.outcome)
    if outcome == Attempt.Outcome.SUCCEEDED:
        return State.SUCCEEDED
    if outcome == Attempt.Outcome.STOPPED:
        return State.STOPPED
    if outcome == Attempt.Outcome.EVICTED:
        return State.QUEUED if task.pull_up else State.EVICTED
    if outcome == Attempt.Outcome.LOST and task.pull_up:
        return State.QUEUED  # nobody's failure: it spends no retry
    return State.QUEUED if _failures(earlier) < task.retry_limit else State.FAILED


def retries_left(task: Task) -> bool:
    """Say whether a failure now would be tried again; evictions spend nothing."""
    return bool(task.retry_limit) and _failures(_earlier_ends([task.pk])[task.pk]) < task.retry_limit


def _failures(earlier: Counter[str]) -> int:
    return earlier[Attempt.Outcome.FAILED] + earlier[Attempt.Outcome.LOST]
