"""The course of a simulation, against counting second by second."""

import pytest

from jobs.simulation.simulate import Simulator
from jobs.simulation.timeline import LONGER, timeline
from jobs.simulation.workload import read_scenario

SCENARIO = {
    "hosts": [{"host": "h1", "gpu_type": "P40", "gpu_num": 8}],
    "quotas": [{"business": "A", "gpu_type": "P40", "cards": 0}],
    "policy": {"min_run_s": 0, "elastic_order": "fifo"},
    "events": [
        {
            "at": 10,
            "submit": {"id": "e", "business": "B", "host_gpu_num": 6, "duration_s": 300, "pull_up": True},
        },
        {
            "at": 30,
            "submit": {"id": "a", "business": "A", "class": "auto", "host_gpu_num": 2, "duration_s": 77},
        },
        {"at": 50, "quota": {"business": "A", "gpu_type": "P40", "cards": 8}},
        {
            "at": 61,
            "submit": {"id": "h", "business": "A", "class": "high", "host_gpu_num": 4, "duration_s": 90},
        },
        {"at": 70, "submit": {"id": "w", "business": "B", "host_gpu_num": 8, "duration_s": 5}},
    ],
}


@pytest.mark.parametrize("spans", [1, 7, 50])
def test_the_means_are_those_of_counting_each_second(spans: int) -> None:
    simulator = Simulator(read_scenario(SCENARIO))
    high, elastic, waiting = [], [], []
    second = 10.0
    while simulator.next_at() < float("inf"):
        simulator.advance(second)
        cluster = simulator.cluster
        high.append(sum(task.cards for task in cluster.running.values() if cluster.is_high(task)))
        elastic.append(sum(task.cards for task in cluster.running.values() if not cluster.is_high(task)))
        waiting.append(len(simulator.queue.tasks))
        second += 1
    course = timeline(simulator, spans)
    assert course.capacity == 8
    assert course.span * spans == simulator.now - 10
    assert sum(course.evictions) == len(simulator.evictions) == 1
    assert len(course.evictions) == -(-spans // LONGER)
    for means, counted in ((course.high, high), (course.elastic, elastic), (course.waiting, waiting)):
        assert sum(means) * course.span == pytest.approx(sum(counted))
    assert max(course.high) <= 8


def test_a_promoted_task_is_elastic_before_and_high_after() -> None:
    simulator = Simulator(read_scenario(SCENARIO | {"events": SCENARIO["events"][1:3]}))  # type: ignore[index]
    simulator.run()
    course = timeline(simulator, 77)  # from 30 to 107, a second each
    assert course.elastic == pytest.approx([2.0] * 20 + [0.0] * 57)
    assert course.high == pytest.approx([0.0] * 20 + [2.0] * 57)


def test_of_nothing_there_is_no_course() -> None:
    simulator = Simulator(read_scenario({"hosts": SCENARIO["hosts"]}))
    simulator.run()
    assert set(timeline(simulator, 4).high) == {0.0}
