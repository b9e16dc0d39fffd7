"""From what hosts observed to moves of tasks: attempts run, end, run over a limit, or lose their host."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from cluster.agent import protocol
from cluster.executors import agents
from cluster.executors.base import Observed
from cluster.models import CardLease, Host, Instance
from jobs import lifecycle
from jobs.lifecycle import End
from jobs.models import Attempt
from jobs.scheduling.types import Policy
from jobs.states import ACTIVE, State

log = logging.getLogger(__name__)
Outcome = Attempt.Outcome
LOST_CODES = {  # nobody knows how these ended
    protocol.KEEPER_LOST: "keeper_lost",
    protocol.HOST_RESTARTED: "host_restarted",
    protocol.HOST_LOST: "lost",
}


@dataclass(frozen=True, slots=True)
class Keep:
    """The attempt ended so by itself, and keeps its place."""

    end: End


@dataclass(frozen=True, slots=True)
class Close:
    """Every process of the attempt is gone; it ended so."""

    end: End
    blame: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """What is left of the attempt has to end, as this."""

    end: End


@dataclass(frozen=True, slots=True)
class Run:
    """Every instance runs."""


@dataclass(frozen=True, slots=True)
class Free:
    """The time of a kept place is over."""


Step = Keep | Close | Order | Run | Free


def run(now: datetime, policy: Policy) -> int:
    """Bring every open attempt to where its instances are; return how many moved.

    A fixed number of queries where nothing changed; attempts that run quietly are not even read.
    """
    moved = 0
    _leave_hosts(now, policy)
    attempts = list(_restless(now).select_related("task").order_by("id"))
    observed: dict[int, list[Observed]] = defaultdict(list)
    for row in agents.observe([attempt.pk for attempt in attempts]):
        observed[row.gang].append(row)
    for attempt in attempts:
        members = sorted(observed[attempt.pk], key=lambda row: row.rank)
        moved += _step(attempt, members, now, policy)
    return moved


def _step(attempt: Attempt, members: Sequence[Observed], now: datetime, policy: Policy) -> bool:
    """Let one attempt take its step; a fault in it must not keep all the others from theirs."""
    try:
        step = next_step(attempt, members, now, policy)
        return step is not None and _take(attempt, step, policy)
    except Exception:
        log.exception("attempt %s of task %s was left as it is", attempt.pk, attempt.task_id)
        return False


def _leave_hosts(now: datetime, policy: Policy) -> None:
    """See to what runs on hosts that operators removed, or that are lost."""
    gone_away = Q(host__state=Host.State.REMOVED) | Q(host__lost_since__isnull=False)
    live = Instance.objects.filter(gone_away).exclude(phase=Instance.Phase.GONE)
    rows = list(live.values_list("gang", "host_id", "host__name", "host__state", "host__lost_since"))
    if not rows:
        return
    removed = {gang: name for gang, _, name, state, _ in rows if state == Host.State.REMOVED}
    _order_off(removed)
    given_up = {host for _, host, _, state, lost in rows if state == Host.State.REMOVED and lost}
    # Where no host at all is heard the silence is more likely ours than theirs: then nothing is given up.
    heard = Host.objects.filter(last_seen_at__gte=now - timedelta(seconds=policy.lost_after_s))
    if policy.restart_lost_s and heard.exists():
        before = now - timedelta(seconds=policy.restart_lost_s)
        given_up |= {host for _, host, _, _, lost_since in rows if lost_since and lost_since <= before}
    # What still runs there the host ends when it is back, before it takes work again.
    agents.abandon(given_up, protocol.HOST_LOST)


def _order_off(hosts: dict[int, str]) -> None:
    """Order the attempts to end that have a part on a removed host: there, too, the end has to be seen."""
    attempts = Attempt.objects.filter(pk__in=hosts, ended_at=None, ending="").select_related("task")
    for attempt in attempts.exclude(task__state=State.KEEPING).order_by("id"):
        end = End(outcome=Outcome.LOST, code="lost", args={"host": hosts[attempt.pk]})
        lifecycle.order_end(attempt, State(attempt.task.state), end)


def _restless(now: datetime) -> QuerySet[Attempt]:
    """Return the open attempts that may have a step to take: not those that run whole and in their time."""
    gone = CardLease.objects.filter(released_at=None, instance__phase=Instance.Phase.GONE)
    gangs = set(gone.values_list("instance__gang", flat=True))
    limited = Attempt.objects.filter(
        ended_at=None, task__state=State.RUNNING, task__time_limit_s__isnull=False
    )
    late = [
        pk
        for pk, created_at, limit_s in limited.values_list("pk", "created_at", "task__time_limit_s")
        if limit_s is not None and now >= created_at + timedelta(seconds=limit_s)
    ]
    open_ones = Attempt.objects.filter(ended_at=None, task__state__in=ACTIVE)
    return open_ones.filter(~Q(task__state=State.RUNNING) | Q(pk__in=gangs | set(late)))


def next_step(attempt: Attempt, members: Sequence[Observed], now: datetime, policy: Policy) -> Step | None:
    """Say what an open attempt has to do next, from its members in the order of rank; None: nothing."""
    state = State(attempt.task.state)
    if state == State.KEEPING:
        return Free() if attempt.keep_until and now >= attempt.keep_until else None
    if not members:
        raise LookupError("it has no instances, so nobody can say that they are gone")
    if all(member.phase == "gone" for member in members):
        return _over(attempt, members)
    if attempt.ending:
        return None  # told to end, and on its way
    if end := _early_end(attempt, members) or _limit(attempt, state, members, now, policy):
        return Order(end)
    if state == State.STARTING and all(member.phase in {"running", "gone"} for member in members):
        return Run()
    return None


def _over(attempt: Attempt, members: Sequence[Observed]) -> Step:
    """Say how an attempt ended of which nothing is left."""
    workers = _workers(attempt, members)
    bad = next((member for member in workers if not _ended_well(member)), None)
    natural = all(member.by_itself for member in workers)
    if bad is None and natural:
        return _kept(attempt, End(outcome=Outcome.SUCCEEDED, code="succeeded"))
    if attempt.ending and not (natural and attempt.ending == Outcome.EVICTED):
        end = End(outcome=attempt.ending, code=attempt.ending_code, args=attempt.outcome_args)
        return Close(end, _blame(attempt, members))
    if bad is None:  # every code is 0, and some were told to end by somebody else than us
        return Close(End(outcome=Outcome.FAILED, code="ended_from_outside"))
    end = failure_of(bad, members)
    return _kept(attempt, end) if end.outcome == Outcome.FAILED else Close(end)


def _kept(attempt: Attempt, end: End) -> Step:
    """Keep the place of an attempt that ended by itself, where the task asks so and is not tried again."""
    again = end.outcome != Outcome.SUCCEEDED and lifecycle.retries_left(attempt.task)
    if attempt.task.keep_alive and attempt.ending in {"", Outcome.SUCCEEDED} and not again:
        return Keep(end)
    return Close(end, () if end.outcome == Outcome.SUCCEEDED else (int(end.args.get("host_id", 0)),))


def _workers(attempt: Attempt, members: Sequence[Observed]) -> Sequence[Observed]:
    """Return the members that run the start command: all, or the first while the others keep their place."""
    return members if attempt.task.config.get("exec_start_in_all_mpi_pods") else members[:1]


def _ended_well(member: Observed) -> bool:
    return member.exit_code == 0


def _early_end(attempt: Attempt, members: Sequence[Observed]) -> End | None:
    """Say how the attempt has to end because of members that are gone while others are not."""
    gone = [member for member in members if member.phase == "gone"]
    workers = _workers(attempt, members)
    for member in gone:
        if member not in workers or not _ended_well(member):
            return failure_of(member, members)
    if all(member.phase == "gone" for member in workers):
        return End(outcome=Outcome.SUCCEEDED, code="succeeded")
    return None


def _limit(
    attempt: Attempt, state: State, members: Sequence[Observed], now: datetime, policy: Policy
) -> End | None:
    """Say which time limit the attempt is over."""
    age = (now - attempt.created_at).total_seconds()
    limit = attempt.task.time_limit_s
    if limit is not None and age >= limit:
        return End(outcome=Outcome.FAILED, code="time_limit", args={"limit_s": limit})
    late = [member.host_name for member in members if member.phase not in {"running", "gone"}]
    if state == State.STARTING and late and age >= policy.start_deadline_s:
        args = {"limit_s": policy.start_deadline_s, "hosts": ", ".join(late), "of": len(members)}
        return End(outcome=Outcome.FAILED, code="start_deadline", args=args)
    return None


def failure_of(member: Observed, members: Sequence[Observed]) -> End:
    """Return the end that a member which did not end well gives its attempt."""
    args: dict[str, object] = {
        "host": member.host_name,
        "host_id": member.host_id,
        "rank": member.rank,
        "of": len(members),
    }
    if member.detail in LOST_CODES:
        return End(outcome=Outcome.LOST, code=LOST_CODES[member.detail], args=args)
    if member.exit_signal is not None:
        return End(outcome=Outcome.FAILED, code="exit_signal", args={**args, "signal": member.exit_signal})
    if member.exit_code is not None:
        return End(outcome=Outcome.FAILED, code="exit_code", args={**args, "exit_code": member.exit_code})
    return End(outcome=Outcome.FAILED, code="start_failed", args={**args, "detail": member.detail})


def _blame(attempt: Attempt, members: Sequence[Observed]) -> tuple[int, ...]:
    """Return the hosts that a next attempt should avoid."""
    if attempt.ending != Outcome.FAILED:
        return ()
    never_ran = tuple(member.host_id for member in members if member.exit_code is None and member.detail)
    failed = int(attempt.outcome_args.get("host_id", 0))
    return (*never_ran, failed) if failed else never_ran


def _take(attempt: Attempt, step: Step, policy: Policy) -> bool:
    state = State(attempt.task.state)
    match step:
        case Run():
            return lifecycle.runs(attempt, state)
        case Order(end):
            return lifecycle.order_end(attempt, state, end)
        case Keep(end):
            return lifecycle.keep(attempt, state, end)
        case Close(end, blame):
            return lifecycle.close(
                attempt, state, end, backoff_s=policy.pull_up_backoff_s, blame=filter(None, blame)
            )
        case Free():
            return lifecycle.free(attempt, code="keep_over")
