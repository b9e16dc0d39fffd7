"""The queue of a snapshot goes on in time."""

from jobs.scheduling.queue import Queue
from jobs.scheduling.types import Policy, Waiting


def waiting(number: int, **more: float) -> Waiting:
    rest = {"business": 1, "user": 1, "wanted": "high", "host_num": 1, "host_gpu_num": 1, "gpu_types": (1,)}
    return Waiting(id=number, submitted=0.0, queued=0.0, **rest, **more)  # type: ignore[arg-type]  # as they should be


def test_a_task_leaves_its_gate_in_the_instant_in_which_another_one_comes() -> None:
    queue = Queue.of([waiting(1, ready_at=10.0)], Policy(), 0.0)
    queue.add(waiting(2), 10.0)
    queue.advance(10.0)
    assert queue.gated == {}
    assert [entry[2] for group in queue.of_phase("high") for entry in group.entries] == [1, 2]


def test_a_task_that_came_in_a_later_instant_leaves_its_own_gate_too() -> None:
    queue = Queue.of([waiting(1)], Policy(), 0.0)
    queue.add(waiting(2, ready_at=20.0), 10.0)
    queue.advance(20.0)
    assert queue.gated == {}
