"""One simulation and what to say of it: waits of any of its jobs, evictions, cards held and lost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.scheduling import policy as policies
from jobs.simulation.figures import percentile
from jobs.simulation.job import Job
from jobs.simulation.simulate import Simulator
from jobs.simulation.workload import read_tables
from tests.scheduling.traces import Rows

# What evicting costs every job of every simulation here: nothing is for free.
EVERY_JOB = {"pull_up": "true", "checkpoint_s": "1800", "restart_s": "60", "exit_s": "30"}
STRICT_FIFO = {"high_order": "fifo", "elastic_order": "fifo", "head_of_line": "strict", "aging_s": 0}
HOUR_S = 3600
LONGER_S = 60  # to wait so much longer counts as longer: leaving alone takes 30 s


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of some jobs, over all attempts, in hours."""

    jobs: int
    mean: float
    p50: float
    p95: float
    most: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Simulations that ran beside each other, as one."""

    simulators: tuple[Simulator, ...]
    jobs: Mapping[str, Job]

    def waits(self, names: Iterable[str] | None = None) -> Waits:
        """Return the waits of these jobs, or of all."""
        hours = sorted(self.jobs[name].waited / HOUR_S for name in (self.jobs if names is None else names))
        p50, p95 = percentile(hours, 50) or 0.0, percentile(hours, 95) or 0.0
        return Waits(len(hours), sum(hours) / len(hours), p50, p95, hours[-1])

    @property
    def evictions(self) -> int:
        """Return how often a job was evicted."""
        return sum(len(job.evicted_at) for job in self.jobs.values())

    @property
    def worked(self) -> float:
        """Return the card-hours of the jobs' own work."""
        return sum(job.cards * job.duration for job in self.jobs.values()) / HOUR_S

    @property
    def held(self) -> float:
        """Return the card-hours for which cards were held."""
        runs = ((job.cards, run) for job in self.jobs.values() for run in job.attempts)
        return sum(cards * ((run.ended or 0.0) - run.started) for cards, run in runs) / HOUR_S

    @property
    def lost(self) -> float:
        """Return the card-hours held beyond the work: what ran since a checkpoint, restoring, leaving."""
        return self.held - self.worked

    @property
    def makespan(self) -> float:
        """Return the hours from the first submission to the last end."""
        first = min(job.submitted for job in self.jobs.values())
        return (max(simulator.now for simulator in self.simulators) - first) / HOUR_S

    @property
    def use(self) -> float:
        """Return the share of all cards that were held up to the last end."""
        cards = sum(row.total for simulator in self.simulators for row in simulator.setup.hosts)
        return self.held / (cards * self.makespan)


def prepare(
    hosts: Rows,
    jobs: Rows,
    policy: Mapping[str, object],
    *,
    job_class: str = "elastic",
    classes: Mapping[str, str] | None = None,
    quotas: Rows | None = None,
) -> Simulator:
    """Return a simulation that has not run yet, in which every job pays for its evictions."""
    setup = read_tables(
        hosts,
        jobs,
        quotas or (),
        policies.read(policy),
        default_class=job_class,
        class_map=classes,
        every_job=EVERY_JOB,
    )
    return Simulator(setup)


def finish(simulator: Simulator) -> Outcome:
    """Let the simulation run, and return its outcome."""
    simulator.run()
    found = {job.name: job for job in simulator.jobs.values()}
    unfinished = [name for name, job in found.items() if job.state != "succeeded"]
    assert not unfinished, f"these jobs did not finish: {unfinished[:5]}"
    return Outcome((simulator,), found)


def beside(outcomes: Iterable[Outcome]) -> Outcome:
    """Return several outcomes, each on hosts of its own, as one."""
    found = list(outcomes)
    jobs = {name: job for outcome in found for name, job in outcome.jobs.items()}
    return Outcome(tuple(s for outcome in found for s in outcome.simulators), jobs)


def more_waited(job: Job, than: Outcome) -> float:
    """Return how many seconds more the job waited than it does in the other outcome."""
    return job.waited - than.jobs[job.name].waited


def waited_longer(outcome: Outcome, than: Outcome) -> list[Job]:
    """Return the jobs of `outcome` that waited longer than they do in the other one, the worst first."""
    both = [(more_waited(job, than), job) for name, job in outcome.jobs.items() if name in than.jobs]
    both.sort(key=lambda pair: (-pair[0], pair[1].id))
    return [job for more, job in both if more > LONGER_S]
