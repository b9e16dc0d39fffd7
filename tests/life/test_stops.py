"""A task that is stopped at any moment of its start, twice at once, is stopped and nothing else."""

import time
from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from cluster.models import CardLease, Instance
from jobs import services
from jobs.models import Task, TaskEvent
from quotas.models import UsageRow
from tests.agent.conftest import marked
from tests.agent.engines import IMAGE
from tests.life.house import House

# A start takes some 0.2 s from the submission to the first line, with a container 0.6 s.
MOMENTS = {"": (25, 0.04), IMAGE: (8, 0.15)}  # how many, and how long after one another


def double_click(task: Task) -> None:
    """Stop the task from two threads at once, as two clicks do; the later one may find that it is over."""

    def click(_: int) -> str:
        try:
            own = Task.objects.select_related("user").get(pk=task.pk)
            return str(services.stop(own, own.user).state)
        except services.Conflict as conflict:
            return conflict.code
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(click, range(2))) <= {"stopping", "stopped", "already_over"}


def test_a_task_stopped_at_any_moment_of_its_start_is_stopped_and_leaves_nothing(either: House) -> None:
    house = either
    house.policy(exit_grace_s=1)
    house.host("h1", 1)
    moments, step_s = MOMENTS[house.image]
    reached = set()
    for moment in range(moments):
        task = house.submit("echo up; sleep 300")
        if moment < moments - 1:
            time.sleep(moment * step_s)
        else:
            house.reach(task, "running")  # however long that takes this machine
        double_click(task)
        house.reach(task, "stopped")
        reached |= set(TaskEvent.objects.filter(task=task).values_list("new_state", flat=True))
        members = Instance.objects.filter(gang__in=task.attempts.values("pk"))
        assert all(not marked(str(pk)) for pk in members.values_list("pk", flat=True))
        assert not CardLease.objects.filter(released_at=None).exists()
        assert UsageRow.objects.filter(task=task.pk).count() == task.attempts.count() <= 1
        assert TaskEvent.objects.filter(task=task, new_state__in=("stopping", "stopped")).count() <= 2
    assert {"starting", "running", "stopping"} <= reached  # the moments fell before, into and after the start
