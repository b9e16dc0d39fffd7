"""The life of a task, move by move: compare-and-set on its state, an event each, attempts closed."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from cluster import hints, rows
from cluster.executors import agents
from jobs.models import Attempt, Claim, Task, TaskEvent
from jobs.states import TERMINAL, State, may_move
from quotas.access import AnyUser
from quotas.models import UsageRow

KEEP_FOR = timedelta(minutes=30)  # how long `keep_alive` keeps a place
FAILED_AT_ONCE = timedelta(seconds=60)  # an attempt that fails sooner than this blames its hosts
MOST_BACKOFF_S = 600.0

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
    the state. Runs in the caller's transaction: the rows stay locked until it ends.
    """
    if not may_move(old, new):
        raise IllegalMove(f"{old} → {new}")
    found = Task.objects.select_for_update().filter(pk__in=list(task_ids), state=old)
    moved = set(found.order_by("pk").values_list("pk", flat=True))
    if not moved:
        return moved
    now = timezone.now()
    values: dict[str, Any] = {**(fields or {}), "state": new}
    if new in TERMINAL:
        values["ended_at"] = now
    if new != State.QUEUED:
        values |= {"reason_code": "", "reason_args": {}}
    Task.objects.filter(pk__in=moved).update(**values)
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
) -> None:
    """Write an event row for each task, and say that it changed."""
    ids = sorted(task_ids)
    at = now or timezone.now()
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
    hints.publish("tasks", *(f"task.{task_id}" for task_id in ids))


def runs(attempt: Attempt, state: State) -> bool:
    """Note that every instance of a starting attempt runs."""
    with transaction.atomic():
        attempts = {attempt.task_id: attempt.pk}
        if not move([attempt.task_id], state, State.RUNNING, code="running", attempts=attempts):
            return False
        Attempt.objects.filter(pk=attempt.pk).update(running_at=timezone.now())
    return True


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
    with transaction.atomic():
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
    now = timezone.now()
    ends = {order.attempt: (order.end.outcome, order.end.code, now, dict(order.end.args)) for order in orders}
    rows.update_each(Attempt, ends, "ending", "ending_code", "ending_at", "outcome_args")
    # One that is stopped while it leaves was evicted all the same: for whom and by which rule stays written.
    whom = {order.attempt: (order.evicted_for, order.evict_rule) for order in orders if order.evict_rule}
    rows.update_each(Attempt, whom, "evicted_for", "evict_rule")


def order_end(attempt: Attempt, state: State, end: End, *, actor: AnyUser | None = None) -> bool:
    """Tell one attempt to end; returns False, and changes nothing, where its task is no longer in `state`."""
    order = Order(task=attempt.task_id, attempt=attempt.pk, state=state, end=end)
    return bool(order_ends([order], actor=actor))


def close(attempt: Attempt, state: State, end: End, *, backoff_s: float, blame: Iterable[int] = ()) -> bool:
    """Close an attempt whose last process is gone: free its cards, write its usage, move its task on.

    `blame`: hosts that a next attempt should avoid. Returns False where the task is no longer in `state`.
    """
    now = timezone.now()
    task = attempt.task
    with transaction.atomic():
        after = _after(task, end)
        fields: dict[str, object] = {}
        if after == State.QUEUED:
            fields["queued_at"] = now
            fields["ready_at"] = now + timedelta(seconds=_backoff(task, end, backoff_s))
            if end.outcome == Attempt.Outcome.FAILED and now - attempt.created_at < FAILED_AT_ONCE:
                fields["avoid_hosts"] = sorted({*task.avoid_hosts, *blame})
        if not move(
            [task.pk],
            state,
            after,
            code=end.code,
            args=end.args,
            attempts={task.pk: attempt.pk},
            fields=fields,
        ):
            return False
        _write_end(attempt, end, now)
    return True


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
            keep_until=timezone.now() + KEEP_FOR,
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
        _write_end(attempt, end, timezone.now())
    return True


def _write_end(attempt: Attempt, end: End, now: datetime) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(
        ended_at=now, outcome=end.outcome, outcome_code=end.code, outcome_args=dict(end.args)
    )
    agents.release([attempt.pk])
    UsageRow.objects.create(
        attempt=attempt.pk,
        task=attempt.task_id,
        business_id=attempt.task.business_id,
        user_id=attempt.task.user_id,
        gpu_type_id=attempt.gpu_type_id,
        task_class=attempt.task_class,
        cards=attempt.cards,
        started_at=attempt.created_at,
        ended_at=now,
        seconds=max(0.0, (now - attempt.created_at).total_seconds()),
        outcome=end.outcome,
    )
    Claim.objects.filter(task=attempt.task_id).delete()
    hints.publish("cards")
    hints.wake_pass()


def _after(task: Task, end: End) -> State:
    """Say where a task goes once its attempt ended so."""
    outcome = Attempt.Outcome(end.outcome)
    if outcome == Attempt.Outcome.SUCCEEDED:
        return State.SUCCEEDED
    if outcome == Attempt.Outcome.STOPPED:
        return State.STOPPED
    if outcome == Attempt.Outcome.EVICTED:
        return State.QUEUED if task.pull_up else State.EVICTED
    if outcome == Attempt.Outcome.LOST and task.pull_up:
        return State.QUEUED  # nobody's failure: it spends no retry
    return State.QUEUED if retries_left(task) else State.FAILED


def retries_left(task: Task) -> bool:
    """Say whether a failure now would be tried again; evictions spend nothing."""
    if not task.retry_limit:
        return False
    return _ended_as(task, Attempt.Outcome.FAILED, Attempt.Outcome.LOST) < task.retry_limit


def _ended_as(task: Task, *outcomes: str) -> int:
    return task.attempts.filter(ended_at__isnull=False, outcome__in=outcomes).count()


def _backoff(task: Task, end: End, base_s: float) -> float:
    """Return the seconds to wait before the next attempt; doubles with each earlier end of the same kind."""
    return min(MOST_BACKOFF_S, base_s * 2.0 ** min(_ended_as(task, end.outcome), 30))
