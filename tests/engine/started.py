"""A task that runs on two hosts, and one pass after it."""

from typing import Any

from jobs.engine import passes
from jobs.models import Task
from tests.world import World


def start(world: World, **fields: Any) -> Task:
    """Let a task run, with room on two hosts."""
    world.business("ads", P40=16)
    world.host("h1")
    world.host("h2")
    task = world.task(**fields)
    passes.run()
    world.host_says(task, "running")
    return after_pass(task)


def after_pass(task: Task) -> Task:
    """Run a pass and return the task as it is then."""
    passes.run()
    task.refresh_from_db()
    return task
