"""What holds for any cluster, any work and any policy, after every event."""

from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from jobs.simulation.figures import report
from jobs.simulation.workload import read_scenario
from tests.scheduling.watch import Watched

TYPES = ("P40", "M40")
times = st.integers(0, 40).map(lambda tick: tick * 25)  # few instants, so that much falls together
jobs = st.fixed_dictionaries(
    {
        "business": st.sampled_from("ABC"),
        "user": st.sampled_from(("ann", "bob")),
        "class": st.sampled_from(("high", "elastic", "elastic", "auto")),
        "host_num": st.sampled_from((1, 1, 1, 2, 3)),
        "host_gpu_num": st.integers(1, 4),
        "gpu_type": st.sampled_from(("P40", "P40", "M40,P40", "P40,M40", "")),
        "duration_s": st.sampled_from((0, 1, 100, 600, 2000)),
        "exit_s": st.sampled_from((0, 0, 25, 200)),
        "priority": st.sampled_from(("low", "medium", "high")),
        "pull_up": st.booleans(),
        "checkpoint_s": st.sampled_from((0, 0, 300)),
    },
    optional={
        "time_limit_s": st.integers(1, 2500),
        "retry_limit": st.integers(0, 2),
        "region": st.sampled_from(("sz", "gz")),
    },
)
policies = st.fixed_dictionaries(
    {},
    optional={
        "high_order": st.sampled_from(("priority", "fifo", "shortest_first")),
        "elastic_order": st.sampled_from(("fair_share", "fifo", "shortest_first", "round_robin")),
        "head_of_line": st.sampled_from(("reserve", "skip", "strict")),
        "reserve_after_s": st.sampled_from((0, 300)),
        "aging_s": st.sampled_from((0, 500)),
        "slice_s": st.just(400),
        "placement": st.sampled_from(("best_fit", "spread")),
        "victim_order": st.sampled_from(("longest_run", "shortest_run", "least_lost_work")),
        "min_run_s": st.sampled_from((0, 600)),
        "max_evictions_per_hour": st.sampled_from((0, 1, 4)),
        "evict_delay_s": st.sampled_from((0, 100)),
        "plan_lapse_s": st.sampled_from((60, 120)),
        "restart_lost_s": st.sampled_from((0, 900)),
    },
)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Return a scenario of a few hosts, some work, and things that go wrong."""
    hosts = [
        {
            "host": f"h{n}",
            "region": draw(st.sampled_from(("sz", "gz"))),
            "gpu_type": draw(st.sampled_from(TYPES)),
        }
        | {"gpu_num": draw(st.integers(2, 4))}
        for n in range(draw(st.integers(1, 4)))
    ]
    rows = draw(st.lists(jobs, min_size=1, max_size=12))
    events: list[dict[str, Any]] = [
        {"at": draw(times), "submit": {"id": f"t{n}", **row}} for n, row in enumerate(rows)
    ]
    events.sort(key=lambda row: float(row["at"]))
    quotas = [
        {"business": business, "gpu_type": gpu_type, "cards": draw(st.integers(0, 8))}
        for business in "AB"
        for gpu_type in TYPES
    ]
    events += draw(st.lists(_mishaps(len(hosts), len(rows)), max_size=6))
    return {
        "hosts": hosts,
        "quotas": draw(st.sampled_from(([], quotas))),
        "policy": draw(policies),
        "events": events,
    }


def _mishaps(hosts: int, tasks: int) -> st.SearchStrategy[dict[str, Any]]:
    host = st.integers(0, hosts - 1).map(lambda n: f"h{n}")
    task = st.integers(0, tasks - 1).map(lambda n: f"t{n}")
    states = st.sampled_from(("ready", "ready", "cordoned", "draining", "lost", "removed"))
    kinds = (
        st.builds(lambda t: {"stop": {"task": t}}, task),
        st.builds(lambda h, s: {"host": {"host": h, "state": s}}, host, states),
        st.builds(
            lambda h, n, s: {"card": {"host": h, "index": n, "state": s}},
            host,
            st.integers(0, 1),
            st.sampled_from(("ok", "broken", "external")),
        ),
        st.builds(
            lambda b, n: {"quota": {"business": b, "gpu_type": "P40", "cards": n}},
            st.sampled_from("AB"),
            st.integers(0, 8),
        ),
        st.builds(
            lambda t, a, h: {"report": {"task": t, "attempt": a, "host": h, "outcome": "failed"}},
            task,
            st.integers(1, 2),
            host,
        ),
        st.builds(
            lambda b, n, start: {
                "reservation": {
                    "business": b,
                    "gpu_type": "P40",
                    "cards": n,
                    "from_s": start,
                    "to_s": start + 900,
                }
            },
            st.sampled_from("AB"),
            st.integers(1, 6),
            times,
        ),
    )
    return st.tuples(st.integers(0, 60).map(lambda tick: tick * 25), st.one_of(*kinds)).map(
        lambda pair: {"at": pair[0], **pair[1]}
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_the_invariants_hold_after_every_event(scenario: dict[str, Any]) -> None:
    simulator = Watched(read_scenario(scenario | {"until": 40_000}))

    simulator.run()

    figures = report(simulator)
    event(f"evictions: {min(3, len(simulator.evictions))}")
    for rule in {eviction.rule for eviction in simulator.evictions}:
        event(f"rule: {rule}")
    for name, task in figures["tasks"].items():
        attempts = task["attempts"]
        assert sum(attempt["end_s"] is None for attempt in attempts) <= 1, name
        assert all(a["end_s"] is None or a["end_s"] >= a["start_s"] for a in attempts)
        for earlier, later in pairwise(attempts):
            assert earlier["end_s"] <= later["start_s"]
        waits = task["state"] == "queued"
        assert (task["reason"] is not None) == waits or task["state"] in ("refused", "failed")
