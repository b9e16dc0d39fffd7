"""Four businesses on 144 hosts: each behind a wall with hosts of its own, against quotas on all of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from jobs.scheduling.reasons import Reason
from jobs.simulation.job import Job
from jobs.simulation.simulate import Simulator
from tests.scheduling.traces import Rows, rows
from tests.sharing.outcome import Outcome, beside, finish, prepare, waited_longer

A_WHILE_S = 60  # by then a job that evicts for its cards would have them


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same work behind walls and under quotas."""

    cards: Mapping[str, int]  # business → the cards of its hosts, and its quota
    names: Mapping[str, list[str]]  # business → its jobs
    walls: Outcome
    shared: Outcome
    again: Callable[[], Simulator]  # what is shared, before it has run

    @property
    def longer(self) -> list[Job]:
        """Return the jobs that wait longer than behind their wall, the worst first."""
        return waited_longer(self.shared, self.walls)

    def reasons(self) -> list[tuple[Job, Reason]]:
        """Return why each of them waits, as the product says it a while after it came."""
        simulator, found = self.again(), []
        for job in sorted(self.longer, key=lambda job: (job.submitted, job.id)):
            simulator.advance(job.submitted + A_WHILE_S)
            simulator.explain()
            reason = simulator.jobs[job.id].reason
            if reason is not None:
                found.append((job, reason))
        return found

    def short_of_quota(self, job: Job) -> bool:
        """Say whether, for most of its wait, the job's business had less quota left than the job asks."""
        [simulator] = self.shared.simulators
        quota = next(row.cards for row in simulator.setup.quotas if row.business == job.business)
        waited = short = 0.0
        for since, until, used in _use(self._of(job.business)):
            overlap = sum(_overlap(wait, (since, until)) for wait in _waits(job))
            waited += overlap
            short += overlap if quota - used < job.cards else 0.0
        return short > waited / 2

    def overtaken_by(self, job: Job) -> int:
        """Return how many later jobs of the same business started before the job first did."""
        place, first = (job.submitted, job.id), job.attempts[0].started
        others = self._of(job.business)
        return sum((o.submitted, o.id) > place and o.attempts[0].started < first for o in others)

    def _of(self, business: int) -> list[Job]:
        return [job for job in self.shared.jobs.values() if job.business == business]


def compare(policy: Mapping[str, object], faster: float = 1.0) -> Comparison:
    """Return both worlds under one policy; the work is submitted so many times as fast as it was."""
    hosts, jobs = rows("philly4_hosts.csv"), _sooner(rows("philly4_jobs.csv"), faster)
    businesses = sorted({row["region"] for row in hosts})  # a region is a wall: who had the hosts
    cards = {b: sum(int(row["gpu_num"]) for row in hosts if row["region"] == b) for b in businesses}
    own = ([row for row in hosts if row["region"] == business] for business in businesses)
    names = {b: [row["job_id"] for row in jobs if row["group"] == b] for b in businesses}
    theirs = ([row for row in jobs if row["group"] == business] for business in businesses)
    walls = (prepare(*rows, policy, job_class="high") for rows in zip(own, theirs, strict=True))
    quotas = [{"business": b, "gpu_type": "", "cards": str(number)} for b, number in cards.items()]
    everybodys = [row | {"region": ""} for row in hosts]

    def shared() -> Simulator:
        return prepare(everybodys, jobs, policy, job_class="auto", quotas=quotas)

    return Comparison(cards, names, beside(map(finish, walls)), finish(shared()), shared)


def _sooner(jobs: Rows, faster: float) -> Rows:
    return [row | {"submit_s": str(int(int(row["submit_s"]) / faster))} for row in jobs]


Span = tuple[float, float]


def _overlap(one: Span, other: Span) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _waits(job: Job) -> list[Span]:
    ready = [job.submitted, *(run.ended or 0.0 for run in job.attempts)]
    return [(since, run.started) for since, run in zip(ready, job.attempts, strict=False)]


def _use(jobs: Iterable[Job]) -> Iterable[tuple[float, float, int]]:
    """Give from when to when the jobs held how many cards as high ones."""
    changes = []
    for job in jobs:
        for run in job.attempts:
            since = run.started if run.task_class == "high" else run.promoted
            if since is not None:
                changes += [(since, job.cards), (run.ended or 0.0, -job.cards)]
    used = 0
    for (at, cards), (until, _) in pairwise([(float("-inf"), 0), *sorted(changes), (float("inf"), 0)]):
        used += cards
        yield at, until, used
