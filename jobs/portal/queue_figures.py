"""What waits and why, counted: by reason and class, and by the GPU types that are asked for."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from json import loads
from urllib.parse import urlencode

from django.db.models import Count, F, Min, Sum, TextField
from django.db.models.functions import Cast
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from cluster import inventory
from jobs.filters import QUEUE
from jobs.models import Task
from jobs.portal.filter_labels import REASONS
from jobs.portal.words import CLASSES
from quotas.access import AnyUser

NEW: Promise = _("no pass has looked at it yet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """How many tasks of one class wait so, and where they are listed."""

    label: str | Promise  # of the class, blank for all of them
    tasks: int
    address: str  # the query of the list of tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Tasks that wait for one reason, or that ask for the same types."""

    label: str | Promise
    classes: list[Number]  # in the order of CLASSES
    all: Number
    cards: int  # that they ask for together
    since: datetime  # when the first of them began to wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The queue in numbers."""

    tasks: int
    cards: int
    by_reason: list[Line]
    by_type: list[Line]


@dataclass(frozen=True, slots=True)
class _Group:
    """Tasks that are alike."""

    reason: str
    task_class: str
    types: tuple[int, ...]
    tasks: int
    cards: int
    since: datetime


def read(user: AnyUser) -> Figures:
    """Return the queue of all that `user` sees; one grouped query, and the names of the types."""
    groups = _groups(user)
    names = inventory.type_names() if groups else {}
    by_reason, by_type = defaultdict(list), defaultdict(list)
    for group in groups:
        by_reason[group.reason].append(group)
        by_type[group.types].append(group)
    return Figures(
        tasks=sum(group.tasks for group in groups),
        cards=sum(group.cards for group in groups),
        by_reason=_sorted(
            _line(REASONS.get(code, code) if code else NEW, {"reason": code} if code else {}, parts)
            for code, parts in by_reason.items()
        ),
        by_type=_sorted(
            _type_line([names.get(pk, "?") for pk in ids], parts) for ids, parts in by_type.items()
        ),
    )


def _groups(user: AnyUser) -> list[_Group]:
    rows = (
        Task.objects.visible_to(user)
        .waiting()
        .order_by()
        .values("reason_code", "wanted_class", types=Cast("gpu_types", TextField()))
        .annotate(tasks=Count("pk"), asked=Sum(F("host_num") * F("host_gpu_num")), since=Min("queued_at"))
    )
    columns = ("reason_code", "wanted_class", "types", "tasks", "asked", "since")
    return [
        _Group(reason, task_class, tuple(loads(types)), tasks, asked, since)
        for reason, task_class, types, tasks, asked, since in rows.values_list(*columns)
    ]


def _sorted(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: (-line.all.tasks, str(line.label)))


def _type_line(names: list[str], groups: list[_Group]) -> Line:
    return _line(", ".join(names), {"gpu_type": names}, groups)


def _line(label: str | Promise, query: dict[str, str | list[str]], groups: list[_Group]) -> Line:
    by_class: Counter[str] = Counter()
    for group in groups:
        by_class[group.task_class] += group.tasks
    return Line(
        label=label,
        classes=[_count(label, by_class[word], {**query, "class": word}) for word, label in CLASSES.items()],
        all=_count("", by_class.total(), query),
        cards=sum(group.cards for group in groups),
        since=min(group.since for group in groups),
    )


def _count(label: str | Promise, tasks: int, query: dict[str, str | list[str]]) -> Number:
    return Number(label=label, tasks=tasks, address=urlencode({"state": QUEUE, **query}, doseq=True))
