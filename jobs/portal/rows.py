"""Rows of task lists, built lean: a fixed number of queries for any number of rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils.functional import Promise
from django.utils.translation import gettext as _

from cluster.models import GpuType
from jobs.engine import ask
from jobs.models import Attempt, Task, TaskQuerySet
from jobs.portal import words
from jobs.scheduling.reasons import SENTENCES, Reason
from jobs.states import WAITING

SHOWN = (
    "id",
    "task_flag",
    "state",
    "wanted_class",
    "host_num",
    "host_gpu_num",
    "gpu_types",
    "reason_code",
    "reason_args",
    "submitted_at",
    "business__flag",
    "user__username",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A state as people see it: its word, its colour, and whether it is on the move."""

    label: str | Promise
    colour: str
    moving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One task in a list."""

    id: int
    flag: str
    status: Status
    class_label: str | Promise
    class_colour: str
    business: str
    user: str
    cards: str  # "8" or "2 × 8"
    types: str  # "P40" or "P40, M40"
    reason: str
    submitted_at: datetime


def status(state: str) -> Status:
    """Return how a state, or the outcome of an attempt, looks."""
    return Status(
        label=words.STATES.get(state, state),
        colour=words.COLOURS.get(state, "secondary"),
        moving=state in words.MOVING,
    )


def shape(host_num: int, host_gpu_num: int) -> str:
    """Return the cards of a task in the fewest signs: `8`, or `2 × 8` for two hosts."""
    return str(host_gpu_num) if host_num == 1 else f"{host_num} × {host_gpu_num}"


def waits_because(task: Task) -> str:
    """Return the sentence that says why a task waits; blank where it does not, or no pass saw it yet."""
    reason = ask.reason(task) if task.state in WAITING else None
    return reason["message"] if reason else ""


def advice(task: Task) -> str:
    """Return what could be done so that a waiting task starts; blank where there is nothing but waiting."""
    waits = task.state in WAITING and task.reason_code in SENTENCES
    said = Reason(task.reason_code).advice[1] if waits else ""
    return _(said) if said else ""


def type_names() -> dict[int, str]:
    """Return the names of all GPU types by id."""
    return dict(GpuType.objects.values_list("id", "name"))


def rows(tasks: TaskQuerySet) -> list[Row]:
    """Return the rows of `tasks` (already cut to one page), in three queries."""
    found = list(tasks.select_related("business", "user").only(*SHOWN))
    names = type_names()
    running = _running_as(task.pk for task in found)
    return [_row(task, names, running.get(task.pk)) for task in found]


def _running_as(task_ids: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Return class and type of the open attempts: what an `auto` task, or one of several types, became."""
    found = Attempt.objects.filter(task__in=list(task_ids), ended_at__isnull=True)
    columns = found.values_list("task", "task_class", "gpu_type")
    return {task: (kind, gpu_type) for task, kind, gpu_type in columns}


def _row(task: Task, names: dict[int, str], running: tuple[str, int] | None) -> Row:
    kind, types = running[0] if running else task.wanted_class, [running[1]] if running else task.gpu_types
    return Row(
        id=task.pk,
        flag=task.task_flag,
        status=status(task.state),
        class_label=words.CLASSES.get(kind, kind),
        class_colour=words.CLASS_COLOURS.get(kind, "secondary"),
        business=task.business.flag,
        user=task.user.get_username(),
        cards=shape(task.host_num, task.host_gpu_num),
        types=", ".join(names.get(pk, f"#{pk}") for pk in types),
        reason=waits_because(task),
        submitted_at=task.submitted_at,
    )
