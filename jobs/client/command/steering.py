"""`taiji stop`, `hold`, `release`, `free-place` and `retry`."""

from collections.abc import Callable
from typing import Annotated

import typer

from jobs.client.answers import Task
from jobs.client.command import account, codes
from jobs.client.command.screen import err, line
from jobs.client.errors import Refused
from jobs.client.platform import Taiji

TASKS = typer.Argument(help="Numbers of tasks.", metavar="TASK…")


def add_steering(app: typer.Typer) -> None:
    """Add them to the command."""
    app.command("stop")(stop)
    app.command("hold")(hold)
    app.command("release")(release)
    app.command("free-place")(free_place)
    app.command("retry")(retry)


def stop(tasks: Annotated[list[int], TASKS]) -> None:
    """Stop tasks: their exit commands run, and all is over within 30 seconds."""
    _each(tasks, Taiji.stop)


def hold(tasks: Annotated[list[int], TASKS]) -> None:
    """Keep waiting tasks from starting."""
    _each(tasks, Taiji.hold)


def release(tasks: Annotated[list[int], TASKS]) -> None:
    """Let held tasks start."""
    _each(tasks, Taiji.release)


def free_place(tasks: Annotated[list[int], TASKS]) -> None:
    """End the kept places of tasks that are over (`keep_alive`)."""
    _each(tasks, Taiji.free)


def retry(tasks: Annotated[list[int], TASKS]) -> None:
    """Submit tasks that are over once more; prints the numbers of the new ones."""
    _each(tasks, Taiji.retry)


def _each(tasks: list[int], deed: Callable[[Taiji, int], Task]) -> None:
    """Do it to each; one that cannot be done does not keep the others from it, and gives the exit code."""
    code = 0
    with account.find().platform() as platform:
        for task_id in tasks:
            try:
                task = deed(platform, task_id)
            except Refused as error:
                if error.status == 401:
                    raise  # of all of them
                err.print(f"taiji: task {task_id}: {error}", markup=False)
                code = code or codes.of_failure(error)
            else:
                line(f"{task['id']}  {task['state']}")
    if code:
        raise typer.Exit(code)
