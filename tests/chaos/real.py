"""PURE: what must hold of the processes that are alive, by themselves and against the rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from cluster.agent.protocol import HOST_LOST
from tests.chaos.alive import Alive
from tests.chaos.rows import Rows
from tests.chaos.rules import Violation
from tests.chaos.work import TRACE


def no_card_is_used_twice(alive: Sequence[Alive]) -> Iterator[Violation]:
    """I1 on the hosts: no two instances run on one card, whatever happened to platform, agents and lines."""
    for one, other in _pairs(alive):
        if one.host == other.host and one.cards & other.cards:
            cards = sorted(one.cards & other.cards)
            yield _both("I1", f"run on the cards {cards} of {one.host} at once", one, other)


def no_task_runs_twice(alive: Sequence[Alive], rows: Rows) -> Iterator[Violation]:
    """I7 on the hosts: a rank of a task runs once, unless operators' policy gave the earlier host up.

    `rows` are read after `alive` was seen, so that who was given up by then is known.
    """
    given_up = {instance.id for instance in rows.instances if instance.detail == HOST_LOST}
    for one, other in _pairs(alive):
        if (one.task, one.rank) == (other.task, other.rank) and not {one.instance, other.instance} & given_up:
            yield _both("I7", f"are both rank {one.rank} of task {one.task}", one, other)


def what_is_gone_does_not_run(rows: Rows, alive: Sequence[Alive]) -> Iterator[Violation]:
    """I7: of an instance that is gone nothing is left. `alive` is looked at after `rows` were read."""
    gone = {i.id for i in rows.instances if i.phase == "gone" and i.detail != HOST_LOST}
    for process in alive:
        if process.instance in gone:
            yield _one("I7", "is alive although its instance is gone", process)


def nothing_runs(alive: Sequence[Alive]) -> Iterator[Violation]:
    """I7: once every task is over there is no process of any."""
    for process in alive:
        yield _one("I7", "is alive although every task is over", process)


def traces_agree(rows: Rows, traces: Mapping[int, list[str]]) -> Iterator[Violation]:
    """I7: each instance that started is one of its task, and started once. `traces` are lines by task."""
    gangs = {attempt.id: attempt.task for attempt in rows.attempts}
    task_of = {instance.id: gangs.get(instance.gang) for instance in rows.instances}
    for task, lines in traces.items():
        for instance, times in Counter(_said(lines, "start")).items():
            if times > 1:
                yield _task("I7", f"started its instance {instance} {times} times", task)
            if task_of.get(instance) != task:
                yield _task("I7", f"ran as the instance {instance}, which is not its own", task)


def successes_are_true(rows: Rows, traces: Mapping[int, list[str]]) -> Iterator[Violation]:
    """What succeeded did its work in its last attempt: no end of an agent or a host is taken for that."""
    last = {attempt.task: attempt.id for attempt in rows.attempts}  # they come by number
    first_members = {instance.gang: instance.id for instance in rows.instances if instance.rank == 0}
    for task in rows.tasks.values():
        if task.state == "succeeded" and first_members.get(last[task.id]) not in _said(
            traces.get(task.id, ()), "done"
        ):
            yield _task("I9", "succeeded without having come to its end", task.id)


def _said(lines: Sequence[str], word: str) -> list[str]:
    """Return the instances that wrote this word."""
    return [line.split()[1] for line in lines if line.startswith(f"{word} ")]


def read_traces(storage: Path) -> dict[int, list[str]]:
    """Return what the tasks wrote down, by task."""
    found = storage.glob(f"business-*/task-*/{TRACE}")
    return {int(path.parent.name.removeprefix("task-")): path.read_text().splitlines() for path in found}


def _pairs(alive: Sequence[Alive]) -> Iterator[tuple[Alive, Alive]]:
    one_each = {process.instance: process for process in alive}
    return combinations(one_each.values(), 2)


def _both(rule: str, says: str, one: Alive, other: Alive) -> Violation:
    return Violation(
        rule=rule,
        says=f"{one} and {other} {says}",
        tasks=frozenset({one.task, other.task}),
        hosts=frozenset({one.host, other.host}),
    )


def _one(rule: str, says: str, process: Alive) -> Violation:
    return Violation(
        rule=rule, says=f"{process} {says}", tasks=frozenset({process.task}), hosts=frozenset({process.host})
    )


def _task(rule: str, says: str, task: int) -> Violation:
    return Violation(rule=rule, says=f"task {task} {says}", tasks=frozenset({task}))
