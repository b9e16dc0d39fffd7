"""The simulator on recorded work: two traces as they are, and one repeated to a million jobs."""

import resource
import sys
import time
from collections.abc import Iterable, Mapping

from jobs.scheduling import policy as policies
from jobs.simulation import figures
from jobs.simulation.simulate import Simulator
from jobs.simulation.workload import read_tables
from tests.scheduling.traces import Absent, Rows, repeated, rows

STRICT_FIFO = {"elastic_order": "fifo", "head_of_line": "strict", "aging_s": 0}
CHRONUS_CLASSES = {"strict": "high", "best": "elastic"}
JOBS = {"jobs_per_s_at_100k": 100_000, "jobs_per_s_at_300k": 300_000, "jobs_per_s": 1_000_000}


def run() -> dict[str, float | int]:
    """Simulate, each time from rows of tables to the summary; without the traces say so and measure nothing."""
    try:
        hosts, jobs = rows("philly4_hosts.csv"), rows("philly4_jobs.csv")
        chronus = rows("chronus_hosts.csv"), rows("chronus_mix1_jobs.csv.gz")
    except Absent as absent:
        print(f"Nothing is measured: {absent}.", file=sys.stderr)
        return {}
    found: dict[str, float | int] = {
        "philly4_s": round(_seconds(hosts, jobs, STRICT_FIFO), 2),
        "chronus_s": round(_seconds(*chronus, {}, CHRONUS_CLASSES), 2),
    }
    for key, number in JOBS.items():
        found[key] = round(number / _seconds(hosts, repeated(jobs, number), STRICT_FIFO))
    return {**found, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}


def _seconds(
    hosts: Rows,
    jobs: Iterable[dict[str, str]],
    policy: Mapping[str, object],
    classes: Mapping[str, str] | None = None,
) -> float:
    """Return how long a simulation takes."""
    began = time.perf_counter()
    simulator = Simulator(read_tables(hosts, jobs, (), policies.read(policy), class_map=classes))
    simulator.run()
    figures.summary(simulator, list(simulator.jobs.values()))
    return time.perf_counter() - began
