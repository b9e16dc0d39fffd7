"""What a simulation looked like over time: cards in use, tasks that wait and evictions, in equal spans."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from jobs.simulation.job import Attempt, Job
from jobs.simulation.simulate import Simulator

SPANS = 400  # as many as a picture can show
LONGER = 5  # an eviction is rare: so many spans are counted together


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Means over equal spans of time, and the evictions in longer ones."""

    first: float  # seconds, when the first job was submitted …
    span: float  # … and how long one span is
    capacity: int  # cards of all hosts
    high: list[float]  # cards in use
    elastic: list[float]
    waiting: list[float]  # tasks
    evictions: list[int]  # in LONGER spans each


def timeline(simulator: Simulator, spans: int = SPANS) -> Timeline:
    """Return the course of a simulation that has run, from its first submission to its end."""
    jobs = simulator.jobs.values()
    now = simulator.now
    first = min((job.submitted for job in jobs), default=0.0)
    span = (now - first) / spans or 1.0
    high, elastic, waiting = (_Means(first, span, spans) for _ in range(3))
    for job in jobs:
        for run in job.attempts:
            turned = _turned_high(run, now)
            elastic.add(run.started, turned, job.cards)
            high.add(turned, now if run.ended is None else run.ended, job.cards)
        for since, until in _waits(job, now):
            waiting.add(since, until, 1)
    evictions = [0] * -(-spans // LONGER)
    for eviction in simulator.evictions:
        evictions[min(int((eviction.at - first) / span), spans - 1) // LONGER] += 1
    return Timeline(
        first=first,
        span=span,
        capacity=sum(row.total for row in simulator.setup.hosts),
        high=high.values(),
        elastic=elastic.values(),
        waiting=waiting.values(),
        evictions=evictions,
    )


def _turned_high(run: Attempt, now: float) -> float:
    """Return until when the attempt's cards were elastic: its start where it was high from then on."""
    if run.task_class == "high":
        return run.started
    ended = now if run.ended is None else run.ended
    return ended if run.promoted is None else run.promoted


def _waits(job: Job, now: float) -> Iterator[tuple[float, float]]:
    """Give the times from when to when the job waited."""
    since: float | None = job.submitted
    for run in job.attempts:
        assert since is not None
        yield since, run.started
        since = run.ended
    if since is not None:
        yield since, now if job.ended is None else job.ended


class _Means:
    """The mean of a sum of steps in each span; a step costs the same however long it is."""

    def __init__(self, first: float, span: float, spans: int) -> None:
        self._first = first
        self._span = span
        self._last = spans - 1
        self._whole = [0.0] * (spans + 1)  # changes from one span to the next
        self._part = [0.0] * spans  # what covers its span in part

    def add(self, since: float, until: float, amount: float) -> None:
        """Add `amount` from `since` to `until`."""
        start, end = (since - self._first) / self._span, (until - self._first) / self._span
        in_first, in_last = min(int(start), self._last), min(int(end), self._last)
        if in_first == in_last:
            self._part[in_first] += amount * (end - start)
            return
        self._part[in_first] += amount * (in_first + 1 - start)
        self._part[in_last] += amount * (end - in_last)
        self._whole[in_first + 1] += amount
        self._whole[in_last] -= amount

    def values(self) -> list[float]:
        """Return the mean of each span."""
        return [whole + part for whole, part in zip(accumulate(self._whole), self._part, strict=False)]
