"""What happens to the list of tasks meanwhile; tests/browser/deeds.py does it."""

from collections.abc import Callable

from django.utils import timezone

from cluster import hints
from jobs.models import Task
from tests.portal.conftest import run
from tests.world import World

world = World()
NUMBERS = {"per_host": 8, "types": "P40", "free": 12, "largest": 6}


def many() -> None:
    """Make so many tasks that they fill more than a page: waiting ones, and one that failed."""
    for number in range(60):
        world.task(task_flag=f"sweep-{number:02}", cards=8, reason_code="no_cards", reason_args=NUMBERS)
    failed = world.task(
        task_flag="broken-全量", state="failed", ended_at=timezone.now(), config={"tags": ["night"]}
    )
    run(failed, outcome="failed", outcome_code="exit_code", outcome_args={"host": "gpu-1", "exit_code": 137})
    world.task(user="oz", task_flag="of-oz")


def come() -> None:
    """Submit three more, and tell the pages."""
    for number in range(3):
        world.task(task_flag=f"late-{number}")
    hints.publish("tasks")


def go() -> None:
    """Let the newest of the sweep succeed, and tell the pages."""
    Task.objects.filter(task_flag="sweep-59").update(state="succeeded", ended_at=timezone.now())
    hints.publish("tasks")


DEEDS: dict[str, Callable[[], None]] = {"many": many, "come": come, "go": go}
