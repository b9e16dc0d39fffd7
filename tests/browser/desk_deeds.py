"""What operators decide about while a test looks on: high tasks of a business that wait, or that hold its quota."""

import json
from collections.abc import Callable

from django.utils import timezone

from cluster import hints
from cluster.models import CardLease, Host
from jobs.models import Priority, Task
from jobs.states import State
from quotas.models import Quota
from tests.portal.conftest import run
from tests.world import World

world = World()


def line() -> None:
    """Let one task hold the quota of `line`, three wait behind it, and one ask for a type without quota.

    Print their ids by name.
    """
    host = world.host("line-1", 8, "V100", "Shenzhen")
    other = world.host("line-2", 8, "T4", "Shenzhen")
    world.business("line", V100=8, T4=0)
    Host.objects.filter(pk__in=(host.pk, other.pk)).update(last_seen_at=timezone.now())
    holder = _waiting("holder")
    run(holder, host)
    names = ("first", "second", "last")
    ids = {name: _waiting(name).pk for name in names} | {"parked": _waiting("parked", "T4").pk}
    print(json.dumps(ids))


def _waiting(name: str, gpu_type: str = "V100") -> Task:
    return world.task("line", "lin", cards=8, gpu_types=[gpu_type], task_flag=name, priority=Priority.MEDIUM)


def holder_ends() -> None:
    """Let the task that holds the quota end, as its host would report."""
    holder = Task.objects.get(task_flag="holder")
    now = timezone.now()
    CardLease.objects.filter(gang=holder.attempts.get().pk).update(released_at=now)
    holder.attempts.update(outcome="succeeded", ended_at=now)
    Task.objects.filter(pk=holder.pk).update(state=State.SUCCEEDED, ended_at=now)
    hints.publish("cards", "tasks")


def full() -> None:
    """Let two high tasks of `full` use all of its 16 P100, and a third be about to be submitted; print its id."""
    business = world.business("full", P100=16)
    for number in (1, 2):
        host = world.host(f"full-{number}", 8, "P100", "Shenzhen")
        run(world.task("full", "fay", cards=8, gpu_types=["P100"], task_flag=f"runs-{number}"), host)
    spare = world.host("full-3", 8, "P100", "Shenzhen")
    Host.objects.filter(pk=spare.pk).update(last_seen_at=timezone.now())
    print(json.dumps({"business": business.pk, "quota": Quota.objects.get(business=business).pk}))


def one_more() -> None:
    """Submit another high task of `full`, for which there are free cards; print its id."""
    task = world.task("full", "fay", cards=8, gpu_types=["P100"], task_flag="new")
    print(task.pk)


DEEDS: dict[str, Callable[[], None]] = {
    "line": line,
    "holder_ends": holder_ends,
    "full": full,
    "one_more": one_more,
}
