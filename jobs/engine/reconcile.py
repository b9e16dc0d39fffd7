"""From what hosts observed to moves of tasks: attempts run, end, run over a limit, or lose their host."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from cluster import gangs
from cluster.agent import protocol
from cluster.executors import agents
from cluster.executors.base import Observed
from cluster.models import CardLease, Host, HostEvent, Instance
from jobs import endings, lifecycle
from jobs.engine import lease, quarantine
from jobs.engine.epoch import Epoch
from jobs.lifecycle import Closing, End
from jobs.models import Attempt
from jobs.scheduling.types import Policy
from jobs.states import ACTIVE, State

log = logging.getLogger(__name__)
Outcome = Attempt.Outcome
CHUNK = 200  # attempts per transaction
NEVER_RAN = frozenset({"start_failed", "image_failed", "code_failed", "data_failed", "no_place"})
LOST_CODES = {  # nobody knows how these ended
    protocol.KEEPER_LOST: "keeper_lost",
    protocol.HOST_RESTARTED: "host_restarted",
    protocol.HOST_LOST: "lost",
    protocol.POD_LOST: "pod_lost",
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


def run(now: datetime, policy: Policy, fence: int) -> int:
    """Bring every open attempt to where its instances are; return how many moved. Raises lease.StaleHolder.

    A fixed number of queries where nothing changed; attempts that run, start or leave quietly are not even read.
    """
    _leave_hosts(now, policy, fence)
    attempts = list(_restless(now, policy).select_related("task").order_by("id"))
    observed: dict[int, list[Observed]] = defaultdict(list)
    for row in agents.observe([attempt.pk for attempt in attempts]):
        observed[row.gang].append(row)
    moved = 0
    running: dict[int, int] = {}
    closings: list[Closing] = []
    for attempt in attempts:
        step = _next(attempt, sorted(observed[attempt.pk], key=lambda row: row.rank), now, policy)
        match step:
            case Run():
                running[attempt.task_id] = attempt.pk
            case Close(end, blame):
                state = State(attempt.task.state)
                hosts = frozenset(host for host in blame if host)
                closings.append(Closing(attempt=attempt, state=state, end=end, blame=hosts))
            case Order() | Keep() | Free():
                moved += _left_alone(attempt, partial(_take, attempt, step, fence))
    return moved + _close_all(closings, policy, fence) + _run_all(running, fence)


def _close_all(closings: Sequence[Closing], policy: Policy, fence: int) -> int:
    """Close attempts of which nothing is left: many at once, since that is what many evictions lead to."""
    closed = 0
    for at in range(0, len(closings), CHUNK):
        chunk = closings[at : at + CHUNK]
        try:
            closed += _close(chunk, policy, fence)
        except lease.StaleHolder:
            raise
        except Exception:
            # One that cannot be closed must not keep the others from it: each for itself.
            log.exception("%s attempts were not closed together", len(chunk))
            for one in chunk:
                closed += _left_alone(one.attempt, partial(_close, [one], policy, fence))
    return closed


def _close(closings: Sequence[Closing], policy: Policy, fence: int) -> int:
    with lease.writing(fence):
        closed = lifecycle.close_all(closings, backoff_s=policy.pull_up_backoff_s)
        ended = [closing for closing in closings if closing.attempt.task_id in closed]
        quarantine.learn(ended, policy.quarantine_after)
    return len(closed)


def _run_all(running: Mapping[int, int], fence: int) -> int:
    """Let attempts (by task) run that were starting: many at once, since that is what many starts lead to."""
    each, ran = sorted(running.items()), 0
    for at in range(0, len(each), CHUNK):
        with lease.writing(fence):
            ran += len(lifecycle.run_all(dict(each[at : at + CHUNK])))
    return ran


def _next(attempt: Attempt, members: Sequence[Observed], now: datetime, policy: Policy) -> Step | None:
    """Return the step of one attempt; None where it has none, or where there is a fault in it."""
    try:
        return next_step(attempt, members, now, policy)
    except Exception:
        _note_fault(attempt)
        return None


def _left_alone(attempt: Attempt, take: Callable[[], int]) -> int:
    """Take a step, and return whether it came true; a fault in one must not keep all the others from theirs."""
    try:
        return take()
    except lease.StaleHolder:
        raise
    except Exception:
        _note_fault(attempt)
        return 0


def _note_fault(attempt: Attempt) -> None:
    log.exception("attempt %s of task %s was left as it is", attempt.pk, attempt.task_id)


def _leave_hosts(now: datetime, policy: Policy, fence: int) -> None:
    """See to what runs on hosts that operators removed, or that are lost."""
    gone_away = Q(host__state=Host.State.REMOVED) | Q(host__lost_since__isnull=False)
    live = Instance.objects.filter(gone_away).exclude(phase=Instance.Phase.GONE)
    rows = list(live.values_list("gang", "host_id", "host__name", "host__state", "host__lost_since"))
    if not rows:
        return
    removed = {gang: name for gang, _, name, state, _ in rows if state == Host.State.REMOVED}
    _order_off(removed, fence)
    given_up = {host for _, host, _, state, lost in rows if state == Host.State.REMOVED and lost}
    before = now - timedelta(seconds=policy.restart_lost_s)
    long_lost = {host for _, host, _, _, lost_since in rows if lost_since and lost_since <= before}
    if policy.restart_lost_s and long_lost and _is_listening(now, policy):
        given_up |= long_lost
    # What still runs there the host ends when it is back, before it takes work again.
    if given_up:
        with lease.writing(fence):
            # Locked, so that none that comes back at this moment is given up and taken in at once.
            lost = Host.objects.select_for_update().filter(pk__in=given_up, lost_since__isnull=False)
            still = list(lost.order_by("pk").values_list("pk", flat=True))
            agents.abandon(still, protocol.HOST_LOST)


def _is_listening(now: datetime, policy: Policy) -> bool:
    """Say whether the silence of a host is its own: a host is heard, and not only since a moment ago.

    Where none is heard the silence is more likely ours, and when it ends some are heard sooner than others.
    """
    since = now - timedelta(seconds=policy.lost_after_s)
    came_back = HostEvent.objects.filter(host=OuterRef("pk"), code="back", at__gte=since)
    return Host.objects.filter(~Exists(came_back), last_seen_at__gte=since, lost_since=None).exists()


def _order_off(hosts: dict[int, str], fence: int) -> None:
    """Order the attempts to end that have a part on a removed host: there, too, the end has to be seen."""
    attempts = Attempt.objects.filter(pk__in=hosts, ended_at=None, ending="").select_related("task")
    for attempt in attempts.exclude(task__state=State.KEEPING).order_by("id"):
        end = End(outcome=Outcome.LOST, code="lost", args={"host": hosts[attempt.pk]})
        with lease.writing(fence):
            lifecycle.order_end(attempt, State(attempt.task.state), end)


def _restless(now: datetime, policy: Policy) -> QuerySet[Attempt]:
    """Return the open attempts that may have a step to take: not those that are on their way and in their time."""
    open_ones = Attempt.objects.filter(ended_at=None, task__state__in=ACTIVE).order_by()
    alive = Instance.objects.filter(pk=OuterRef("instance")).exclude(phase=Instance.Phase.GONE)
    gone = CardLease.objects.filter(~Exists(alive), released_at=None)
    # Two exclusions, since an index holds all but those that are gone.
    not_yet = Instance.objects.exclude(phase=Instance.Phase.GONE).exclude(phase=Instance.Phase.RUNNING)
    starting = open_ones.filter(task__state=State.STARTING)
    over = starting.filter(created_at__lte=now - timedelta(seconds=policy.start_deadline_s))
    limit = Epoch(F("created_at")) + F("task__time_limit_s")
    late = open_ones.filter(ending="").alias(limit=limit).filter(limit__lte=now.timestamp())
    found = set(gone.values_list("gang", flat=True))
    found |= set(starting.values_list("pk", flat=True)) - set(not_yet.values_list("gang", flat=True))
    found |= set(over.values_list("pk", flat=True)) | set(late.values_list("pk", flat=True))
    return open_ones.filter(pk__in=found).exclude(task__state=State.KEEPING, keep_until__gt=now)


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
    bad = min((member for member in workers if not _ended_well(member)), key=_first, default=None)
    natural = all(member.by_itself for member in workers)
    if bad is None and natural:
        return _kept(attempt, End(outcome=Outcome.SUCCEEDED, code="succeeded"), ())
    if attempt.ending and not (natural and attempt.ending == Outcome.EVICTED):
        end = End(outcome=attempt.ending, code=_known_by_now(attempt, members), args=attempt.outcome_args)
        return Close(end, _blame(attempt, members))
    if bad is None:  # every code is 0, and some were told to end by somebody else than us
        return Close(End(outcome=Outcome.FAILED, code="ended_from_outside"))
    bad = _culprit(bad, members)
    end = failure_of(bad, members)
    blame = () if bad.cause in endings.OWN_FAULTS else (bad.host_id,)
    return _kept(attempt, end, blame) if end.outcome == Outcome.FAILED else Close(end)


def _known_by_now(attempt: Attempt, members: Sequence[Observed]) -> str:
    """Return the code of the end that it was told: of one that was late, who was late is known when it is over."""
    nobody_began = all(member.cause == "operator" for member in members)
    return (
        "operator_away" if attempt.ending_code == "start_deadline" and nobody_began else attempt.ending_code
    )


def _kept(attempt: Attempt, end: End, blame: tuple[int, ...]) -> Step:
    """Keep the place of an attempt that ended by itself, where the task asks so and is not tried again."""
    again = end.outcome != Outcome.SUCCEEDED and lifecycle.retries_left(attempt.task)
    ran = end.code not in NEVER_RAN  # else there is nothing to look at
    if attempt.task.keep_alive and attempt.ending in {"", Outcome.SUCCEEDED} and ran and not again:
        return Keep(end)
    return Close(end, blame)


def _workers(attempt: Attempt, members: Sequence[Observed]) -> Sequence[Observed]:
    """Return the members that run the start command: all, or the first while the others keep their place."""
    return members if attempt.task.config.get("exec_start_in_all_mpi_pods") else members[:1]


def _ended_well(member: Observed) -> bool:
    return member.exit_code == 0


def _first(member: Observed) -> tuple[float, int]:
    """Order members by when their end was heard: the others often fail because the first did."""
    return (member.gone_at.timestamp() if member.gone_at else 0.0, member.rank)


def _early_end(attempt: Attempt, members: Sequence[Observed]) -> End | None:
    """Say how the attempt has to end because of members that are gone while others are not."""
    gone = sorted((member for member in members if member.phase == "gone"), key=_first)
    workers = _workers(attempt, members)
    for member in gone:
        if member not in workers or not _ended_well(member):
            return failure_of(_culprit(member, members), members)
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
    if state == State.STARTING and age >= policy.start_deadline_s and (late := _late(members)):
        names, ids = ", ".join(member.host_name for member in late), [member.host_id for member in late]
        args = {"limit_s": policy.start_deadline_s, "hosts": names, "host_ids": ids, "of": len(members)}
        return End(outcome=Outcome.FAILED, code="start_deadline", args=args)
    return None


def _late(members: Sequence[Observed]) -> Sequence[Observed]:
    """Return the members that the others wait for; where all are ready those that did not follow the word to start."""
    late = [member for member in members if member.phase in gangs.UNREADY]
    return late or [member for member in members if member.phase == "ready"]


def _culprit(member: Observed, members: Sequence[Observed]) -> Observed:
    """Return the member whose failure it is: of one that waited in vain for the first, that one's."""
    first = members[0]
    if member.cause != "waited" or member.rank == first.rank:
        return member
    told = first.phase == "gone" and first.detail  # it says itself what kept it
    return first if told else replace(first, cause="code_away", detail=member.detail)


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
    ended = {
        "signal": member.exit_signal,
        "exit_code": member.exit_code,
        "detail": member.broken_cards or member.detail,
    }
    args |= {name: value for name, value in ended.items() if value not in {None, ""}}
    return End(outcome=Outcome.FAILED, code=_failure_code(member), args=args)


def _failure_code(member: Observed) -> str:
    """Return the code of a failure: what the host said it was, before what only the exit says."""
    if member.cause in endings.CAUSED:
        return endings.CAUSED[member.cause]
    if member.broken_cards and member.by_itself:
        return "card_fault"
    if member.exit_signal is not None:
        return "exit_signal"
    return "exit_code" if member.exit_code is not None else "start_failed"


def _blame(attempt: Attempt, members: Sequence[Observed]) -> tuple[int, ...]:
    """Return the hosts that a next attempt should avoid: none for what any other would have failed on as well."""
    if attempt.ending != Outcome.FAILED:
        return ()
    # Not those that were stopped, ready or on their way, because of another.
    unable = [
        member
        for member in members
        if member.by_itself and member.exit_code is None and member.detail and member.cause != "waited"
    ]
    args = attempt.outcome_args
    found = [*(member.host_id for member in unable), int(args.get("host_id", 0)), *args.get("host_ids", ())]
    innocent = {member.host_id for member in members if member.cause in endings.OWN_FAULTS}
    return tuple(host for host in found if host not in innocent)


def _take(attempt: Attempt, step: Keep | Order | Free, fence: int) -> bool:
    state = State(attempt.task.state)
    with lease.writing(fence):
        match step:
            case Order(end):
                return lifecycle.order_end(attempt, state, end)
            case Keep(end):
                return lifecycle.keep(attempt, state, end)
            case Free():
                return lifecycle.free(attempt, code="keep_over")
