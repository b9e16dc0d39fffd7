"""A bar on the terminal while a simulation runs; nothing where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobs.scheduling.types import Plan
from jobs.simulation.job import Setup
from jobs.simulation.simulate import Simulator

EVERY = 200  # passes between two looks at the bar

Watch = Callable[[Simulator, Plan], None]


@contextmanager
def bar(setup: Setup, title: str) -> Iterator[Watch | None]:
    """Give what a simulator tells of its passes, None where the errors go to no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        row = shown.add_task(title, total=sum(kind == "submit" for _, kind, _ in setup.events))

        def watch(simulator: Simulator, _: Plan) -> None:
            if len(simulator.pass_s) % EVERY == 0:
                shown.update(row, completed=simulator.over)

        yield watch
