"""The simulator reproduces published results on recorded work (Hu et al., SC'21, Fig. 13: FIFO and SJF)."""

from typing import Any

import pytest

from jobs.scheduling import policy as policies
from jobs.simulation.figures import report
from jobs.simulation.simulate import Simulator
from jobs.simulation.workload import read_tables
from tests.scheduling import traces

STRICT = {"head_of_line": "strict", "aging_s": 0}

# Average completion time and average queuing delay in seconds, and how near the simulator comes to each.
PUBLISHED = [
    ("7f04ca", "fifo", 133826, 1412, 0.001, 0.001),
    ("7f04ca", "shortest_first", 133271, 857, 0.001, 0.001),
    ("2869ce", "fifo", 70215, 21171, 0.001, 0.001),
    ("2869ce", "shortest_first", 56388, 7344, 0.001, 0.001),
    ("0e4a51", "fifo", 233539, 101473, 0.001, 0.001),
    ("0e4a51", "shortest_first", 168747, 36682, 0.001, 0.001),
    ("ee9e8c", "fifo", 243144, 127270, 0.005, 0.01),  # three of its jobs are missing from the files
    ("ee9e8c", "shortest_first", 130493, 14619, 0.005, 0.01),
]


def rows(name: str) -> traces.Rows:
    """Return the rows of a trace; without the traces the test is skipped, and says so."""
    try:
        return traces.rows(name)
    except traces.Absent as absent:
        pytest.skip(str(absent))


def simulated(hosts: list[dict[str, str]], jobs: list[dict[str, str]], order: str) -> dict[str, Any]:
    """Return the figures of a first-come or shortest-first queue that its head stops."""
    policy = policies.read({**STRICT, "elastic_order": order})
    simulator = Simulator(read_tables(hosts, jobs, (), policy))
    simulator.run()
    figures: dict[str, Any] = report(simulator)["summary"]
    return figures


@pytest.mark.parametrize(("cluster", "order", "jct", "wait", "jct_off", "wait_off"), PUBLISHED)
def test_a_virtual_cluster_alone_on_its_hosts(
    cluster: str, order: str, jct: float, wait: float, jct_off: float, wait_off: float
) -> None:
    hosts = [row for row in rows("philly4_hosts.csv") if row["region"] == cluster]
    jobs = [row for row in rows("philly4_jobs.csv") if row["group"] == cluster]

    figures = simulated(hosts, jobs, order)

    assert figures["finished"] == len(jobs)
    assert figures["avg_jct_s"] == pytest.approx(jct, rel=jct_off)
    assert figures["avg_wait_s"] == pytest.approx(wait, rel=wait_off)


def test_all_four_pooled_without_walls() -> None:
    figures = simulated(rows("philly4_hosts.csv"), rows("philly4_jobs.csv"), "fifo")

    assert figures["avg_jct_s"] == pytest.approx(117311, rel=0.0001)
    assert figures["avg_wait_s"] == pytest.approx(993, rel=0.001)
