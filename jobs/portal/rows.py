"""Rows of task lists, built lean: a fixed number of queries for any number of rows."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from cluster import clock, inventory
from jobs.durations import hms
from jobs.models import Attempt, Task, TaskQuerySet
from jobs.portal import words
from jobs.scheduling.reasons import SENTENCES, Reason
from jobs.states import WAITING
from jobs.why import last_attempts, why

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
    "ended_at",
    "business__flag",
    "user__username",
    "region__name",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A state as people see it: its word, its colour, and whether it is on the move."""

    label: str | Promise
    colour: str
    moving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """A time as pages show it: made here, where fifty rows of them cost little."""

    iso: str
    short: str
    long: str

    @classmethod
    def of(cls, at: datetime) -> "Time":
        """Return it in the zone of the pages."""
        local = timezone.localtime(at)
        return cls(
            iso=local.isoformat(), short=f"{local:%Y-%m-%d %H:%M}", long=f"{local:%Y-%m-%d %H:%M:%S %Z}"
        )


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
    region: str  # that it asks for; blank: any
    reason: str  # why it waits, or ended so
    reason_code: str
    submitted: "Time"
    ended: "Time | None"
    runs: "Lasting | None"  # since all of it ran; None: it does not

    @property
    def number(self) -> str:
        """Return the id as text, which a template shows as it is in every language."""
        return str(self.id)

    @property
    def drawn(self) -> SafeString:
        """Return the row of a table that shows it, in the language of the moment."""
        return _drawn(self, get_language(), brief=False)

    @property
    def drawn_briefly(self) -> SafeString:
        """Return the row of a narrow table, with one column for the task and why it waits."""
        return _drawn(self, get_language(), brief=True)


@lru_cache(1024)  # lists of many people have rows in common
def _drawn(row: Row, _language: str | None, *, brief: bool) -> SafeString:
    return render_to_string("includes/row.html", {"row": row, "brief": brief})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """How long something lasts so far: pages let it go on from there (static/js/page.js)."""

    seconds: str  # digits alone: a template would group a number's
    shown: str

    @classmethod
    def since(cls, at: datetime) -> "Lasting":
        """Return how long it lasts, of what began at a time."""
        lasted = max(clock.now() - at, timedelta())
        return cls(seconds=str(round(lasted.total_seconds())), shown=hms(lasted))


def advice(task: Task) -> str:
    """Return what could be done so that a waiting task starts; blank where there is nothing but waiting."""
    waits = task.state in WAITING and task.reason_code in SENTENCES
    said = Reason(task.reason_code).advice[1] if waits else ""
    return _(said) if said else ""


def rows(tasks: TaskQuerySet) -> list[Row]:
    """Return the rows of `tasks` (already cut to one page), in three queries."""
    found = list(tasks.select_related("business", "user", "region").only(*SHOWN))
    names = inventory.type_names()
    last = last_attempts(task.pk for task in found)
    return [_row(task, names, last.get(task.pk)) for task in found]


def rows_of(ids: list[int], known: MutableMapping[tuple[str | None, int], Row]) -> list[Row]:
    """Return the rows of these tasks in this order, in three queries; in none where all are known by now."""
    language = get_language()
    if unknown := [pk for pk in ids if (language, pk) not in known]:
        known.update({(language, row.id): row for row in rows(Task.objects.filter(pk__in=unknown))})
    return [known[language, pk] for pk in ids if (language, pk) in known]


def _row(task: Task, names: dict[int, str], last: Attempt | None) -> Row:
    running = last if last is not None and last.ended_at is None else None
    kind, types = (
        (running.task_class, [running.gpu_type_id]) if running else (task.wanted_class, task.gpu_types)
    )
    code, reason = why(task, last)
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
        region=task.region.name if task.region else "",
        reason=reason,
        reason_code=code,
        submitted=Time.of(task.submitted_at),
        ended=Time.of(task.ended_at) if task.ended_at else None,
        runs=Lasting.since(running.running_at) if running and running.running_at else None,
    )
