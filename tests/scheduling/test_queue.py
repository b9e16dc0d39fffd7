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
    assert [task.id for group in queue.of_phase("high") for task in group.tasks] == [1, 2]


def test_a_task_that_came_in_a_later_instant_leaves_its_own_gate_too() -> None:
    queue = Queue.of([waiting(1)], Policy(), 0.0)
    queue.add(waiting(2, ready_at=20.0), 10.0)
    queue.advance(20.0)
    assert queue.gated == {}


def test_a_task_that_stands_in_the_place_of_another_leaves_and_the_other_comes_back_to_its_own() -> None:
    late, early = waiting(2, priority=2), waiting(1, priority=0)
    queue = Queue.of([early, late], Policy(), 0.0)
    queue.rank_priorities(0.0)
    [group] = queue.of_phase("high")
    assert [task.id for task in group.tasks] == [2, 1]
    assert [place.id for place in group.places] == [1, 2]
    queue.remove(2)
    assert (group.tasks, [place.id for place in group.places]) == ([early], [2])
    queue.rank_priorities(0.0)
    assert (group.tasks, group.places) == ([early], [early])
