"""Read what this installation ran lately as work for the simulator: the same tasks, on today's hosts and quotas."""

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any

from django.db.models import Q

from cluster.models import Card
from jobs.engine import snapshot
from jobs.engine.epoch import Epoch
from jobs.models import Attempt, Task
from jobs.scheduling import types
from jobs.simulation.job import Job, Setup

Event = tuple[float, str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The work of some days; times count from `since`."""

    since: datetime
    still_running: int  # tasks that count with the work they did so far
    never_ran: int  # tasks that are left out: nobody knows how long they would run
    _setup: Setup

    @property
    def tasks(self) -> int:
        """Return how many tasks are replayed."""
        return sum(kind == "submit" for _, kind, _ in self._setup.events)

    def under(self, policy: types.Policy) -> Setup:
        """Return the setup for one simulation under the policy; each has jobs of its own."""
        return dataclasses.replace(self._setup, policy=policy, events=copy.deepcopy(self._setup.events))


def load(now: float, days: float) -> Recorded:
    """Return the work of so many days before `now` (seconds since the epoch), in a fixed number of queries.

    A task counts from its submission, or from the beginning of these days where it was there before; what it did
    earlier is left out, and so is what an evicted attempt did since its last checkpoint. Its work takes the time that
    its attempts held cards, their start and a kept place included. Hosts, cards and quotas are those of `now`.
    """
    since = now - days * 86400
    policy = snapshot.policy()
    today = snapshot.load(now, policy.fair_half_life_s).snapshot
    tasks = _tasks(since)
    runs = _runs(since, now)
    leaving_s = _leaving_s(run for found in runs.values() for run in found)
    jobs = [_job(row, runs[row.id], since, leaving_s) for row in tasks if runs[row.id]]
    events: list[Event] = [(0.0, "reservation", row) for row in _reservations(since, now)]
    events += [(job.submitted, "submit", job) for job in jobs]
    setup = Setup(
        hosts=tuple(_all_free(today.hosts)),
        quotas=today.quotas,
        policy=policy,
        events=sorted(events, key=lambda event: event[0]),
        type_names=today.type_names,
        host_names=today.host_names,
        business_names=today.business_names,
    )
    return Recorded(
        since=datetime.fromtimestamp(since, UTC),
        still_running=sum(run.is_open for found in runs.values() for run in found),
        never_ran=len(tasks) - len(jobs),
        _setup=setup,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """One attempt, as far as it lies in these days."""

    started: float
    told: float | None  # when it was told to end
    ended: float | None
    outcome: str
    until: float  # how long it worked, at most to now

    @property
    def is_open(self) -> bool:
        return self.ended is None


def _runs(since: float, now: float) -> dict[int, list[_Run]]:
    """Return the attempts by task, in their order."""
    rows = Attempt.objects.filter(_not_over(since)).order_by("task", "number")
    found: dict[int, list[_Run]] = defaultdict(list)
    columns = (Epoch("created_at"), Epoch("ending_at"), Epoch("ended_at"))
    for task, outcome, started, told, ended in rows.values_list("task_id", "outcome", *columns):
        until = min(at for at in (told, ended, now) if at is not None)
        found[task].append(_Run(max(since, started), told, ended, outcome, until))
    return found


def _not_over(since: float) -> Q:
    return Q(ended_at__isnull=True) | Q(ended_at__gt=datetime.fromtimestamp(since, UTC))


def _leaving_s(runs: Iterable[_Run]) -> float:
    """Return how long evicted attempts took to leave, on average."""
    evicted = (run for run in runs if run.outcome == Attempt.Outcome.EVICTED)
    took = [run.ended - run.told for run in evicted if run.ended is not None and run.told is not None]
    return fmean(took) if took else 0.0


def _tasks(since: float) -> list[Any]:
    """Return the tasks that were not over when these days began."""
    return list(
        Task.objects.filter(_not_over(since))
        .order_by("id")
        .values_list(
            *("id", "business_id", "user_id", "wanted_class", "host_num", "host_gpu_num", "gpu_types"),
            *("region_id", "priority", "pull_up", "retry_limit", "time_limit_s", "checkpoint_interval_s"),
            *("config__not_before", "submitted_at"),
            named=True,
        )
    )


def _job(row: Any, runs: list[_Run], since: float, leaving_s: float) -> Job:
    """Return the task as a job, submitted when it might first have started."""
    limit, interval = row.time_limit_s, row.checkpoint_interval_s
    work = _work(runs, interval)
    may_start = row.submitted_at.timestamp()
    if row.config__not_before:
        may_start = max(may_start, datetime.fromisoformat(row.config__not_before).timestamp())
    return Job(
        id=row.id,
        name=str(row.id),
        business=row.business_id,
        user=row.user_id,
        wanted=row.wanted_class,
        host_num=row.host_num,
        host_gpu_num=row.host_gpu_num,
        gpu_types=tuple(row.gpu_types),
        region=row.region_id,
        priority=row.priority,
        submitted=max(0.0, may_start - since),
        duration=work if limit is None else min(work, limit),
        time_limit=limit,
        pull_up=row.pull_up,
        retry_limit=row.retry_limit,
        exit_s=leaving_s,
        checkpoint_s=work + 1 if interval is None else interval,  # None: it never writes one, all is lost
    )


def _work(runs: list[_Run], interval: float | None) -> float:
    """Return the seconds of work: all of the last attempt, of the others what their checkpoints kept."""
    seconds = [max(0.0, run.until - run.started) for run in runs]
    kept = sum(_kept(each, interval) for each in seconds[:-1])
    return kept + seconds[-1]


def _kept(seconds: float, interval: float | None) -> float:
    if interval is None:
        return 0.0
    return seconds // interval * interval if interval else seconds


def _all_free(hosts: Iterable[types.HostCards]) -> Iterator[types.HostCards]:
    """Give the hosts with no card in use."""
    good: dict[tuple[int, int], list[int]] = defaultdict(list)
    cards = Card.objects.filter(state=Card.State.OK).order_by("index")
    for host, gpu_type, index in cards.values_list("host_id", "gpu_type_id", "index"):
        good[host, gpu_type].append(index)
    for row in sorted(hosts, key=lambda row: (row.host, row.gpu_type)):
        numbers = tuple(good[row.host, row.gpu_type])
        yield dataclasses.replace(row, total=len(numbers), free_numbers=numbers)


def _reservations(since: float, now: float) -> Iterator[types.Reservation]:
    """Give the windows of these days, in the simulation's time."""
    for row in snapshot.reservations(since, timedelta(days=1, seconds=now - since)):
        yield dataclasses.replace(row, start=row.start - since, end=row.end - since)
