"""Deeds for the submit page: other people's work that stands in the way."""

from collections.abc import Callable

from jobs.models import Task
from tests.portal.conftest import run
from tests.world import World

world = World()


def crowd() -> None:
    """Let an elastic task of another business hold every M40, and have P40 enough for all that tests submit."""
    world.business("ads", P40=64)
    for number in range(4):
        world.host(f"more-{number}", 8, "P40", "Shenzhen")
    task = world.task(
        "speech", "oz", cards=4, wanted_class="elastic", pull_up=True, gpu_types=["M40"], task_flag="crowd"
    )
    run(task, world.host("gpu-3"))


def newest() -> None:
    """Print the config of the newest task."""
    task = Task.objects.latest("pk")
    print(Task.objects.filter(task_flag=task.task_flag).count(), task.config)


DEEDS: dict[str, Callable[[], None]] = {"crowd": crowd, "newest": newest}
