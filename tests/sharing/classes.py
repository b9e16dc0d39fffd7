"""One cluster for two classes: guaranteed jobs high and the others elastic, against one line for all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.simulation.job import Job
from tests.scheduling.traces import rows
from tests.sharing.outcome import HOUR_S, STRICT_FIFO, Outcome, finish, more_waited, prepare, waited_longer

CLASSES = {"strict": "high", "best": "elastic"}
DELAY_S = 600
ONE_LINE = {"strict": "elastic", "best": "elastic"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same work in several worlds."""

    names: Mapping[str, list[str]]  # class in the trace → its jobs
    demand: Mapping[str, float]  # class in the trace → the share of all cards that its work would fill
    fifo: Outcome  # one line, stopped by its head
    passing: Outcome  # one line, whose head is passed over
    alone: Outcome  # the strict jobs as if nobody else were there
    shared: Outcome  # strict jobs high, the others elastic
    delayed: Outcome  # the same, but cards are given DELAY_S to come free before others are evicted for them

    @property
    def longer(self) -> list[Job]:
        """Return the strict jobs that wait longer than if they were alone, the worst first."""
        return waited_longer(self.shared, self.alone)

    @property
    def shorter(self) -> list[Job]:
        """Return the strict jobs that would wait longer if they were alone."""
        return [self.shared.jobs[job.name] for job in waited_longer(self.alone, self.shared)]

    def apart(self, jobs: Iterable[Job]) -> float:
        """Return by how many hours the waits of strict jobs differ from those if they were alone."""
        return abs(sum(more_waited(job, self.alone) for job in jobs)) / HOUR_S


def compare() -> Comparison:
    """Return all worlds; where it does not say otherwise the policy is the product's default."""
    hosts, jobs = rows("chronus_hosts.csv"), rows("chronus_mix1_jobs.csv.gz")
    names = {c: [row["job_id"] for row in jobs if row["priority_class"] == c] for c in CLASSES}
    strict = [row for row in jobs if row["priority_class"] == "strict"]
    shared = finish(prepare(hosts, jobs, {}, classes=CLASSES))
    cards = sum(int(row["gpu_num"]) for row in hosts)
    times = [int(row["submit_s"]) for row in jobs]
    offered = cards * (max(times) - min(times))
    work = {c: sum(shared.jobs[n].cards * shared.jobs[n].duration for n in names[c]) for c in CLASSES}
    return Comparison(
        names=names,
        demand={c: work[c] / offered for c in CLASSES},
        fifo=finish(prepare(hosts, jobs, STRICT_FIFO, classes=ONE_LINE)),
        passing=finish(prepare(hosts, jobs, {**STRICT_FIFO, "head_of_line": "skip"}, classes=ONE_LINE)),
        alone=finish(prepare(hosts, strict, {}, classes=CLASSES)),
        shared=shared,
        delayed=finish(prepare(hosts, jobs, {"evict_delay_s": DELAY_S}, classes=CLASSES)),
    )
