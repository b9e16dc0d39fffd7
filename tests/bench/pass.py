"""The pure pass over a large fleet: 10,000 and 100,000 waiting tasks, medians of several rounds."""

import gc
import statistics
import time
import tracemalloc

from jobs.scheduling.decide import decide
from jobs.scheduling.types import Plan, Policy, Snapshot
from tests.bench._fleet import fleet

ROUNDS = 7
QUOTA = 65  # cards of each type and business: some 1,700 starts and 600 evictions come of it


def run() -> dict[str, float | int]:
    """Measure both sizes; starts and evictions are of the smaller one."""
    small, large = fleet(10_000, quota=QUOTA), fleet(100_000, quota=QUOTA)
    small_ms, plan = _measure(small)
    large_ms, _ = _measure(large)
    tracemalloc.start()
    decide(large, Policy())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "pass_10k_ms": round(small_ms, 1),
        "pass_100k_ms": round(large_ms, 1),
        "starts": len(plan.starts),
        "evictions": len(plan.evictions),
        "peak_mib": round(peak / 2**20, 1),
    }


def _measure(snapshot: Snapshot) -> tuple[float, Plan]:
    """Return the median in milliseconds, and the plan; the collector is left as a worker has it."""
    times = []
    plan = decide(snapshot, Policy())
    for _ in range(ROUNDS):
        gc.collect()
        began = time.perf_counter()
        plan = decide(snapshot, Policy())
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times), plan
