"""What a list of tasks is narrowed to, the same for pages and for the API."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import BooleanField, F, Func, JSONField, Q, Value
from django.db.models.expressions import RawSQL

from jobs.models import Task
from jobs.states import TERMINAL, WAITING, State

OPEN, OVER, QUEUE = "open", "over", "waiting"  # words for several states
GROUPS: dict[str, frozenset[State]] = {
    OPEN: frozenset(State) - TERMINAL,
    OVER: TERMINAL,
    QUEUE: WAITING,
}
NEWEST, OLDEST, LONGEST_WAIT, LAST_ENDED = "newest", "oldest", "waiting_longest", "ended_last"
LISTED = {LONGEST_WAIT: QUEUE, LAST_ENDED: OVER}  # which tasks an order is of, where it is not of all
ORDERS = (NEWEST, OLDEST, LONGEST_WAIT, LAST_ENDED)  # only those that an index carries: jobs/pages.py


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What tasks of a list have in common; a field that says nothing narrows nothing."""

    text: str = ""  # a part of the name, or a number
    states: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    businesses: tuple[int, ...] | None = None  # None: all of them, which only operators see
    user: int | None = None
    gpu_types: tuple[int, ...] = ()  # a task accepts one of them
    regions: tuple[int, ...] = ()  # a task asks for one of them
    reasons: frozenset[str] = frozenset()
    tag: str = ""
    submitted_from: datetime | None = None
    submitted_to: datetime | None = None  # the first moment that is too late
    ended_from: datetime | None = None
    order: str = NEWEST

    @property
    def only_open(self) -> bool:
        """Say whether all that is looked for has not ended: those tasks are few, and have an index of their own."""
        return bool(self.reasons) or (bool(self.states) and self.states <= GROUPS[OPEN])


def conditions(filters: Filters) -> dict[str, Q]:
    """Return what the filters ask of a task, by the name of what they look at."""
    found = {name: Q(**{f"{name}__in": sorted(given)}) for name, given in _plain(filters) if given}
    if filters.businesses is not None:
        found["business"] = one_of("business", filters.businesses)
    if filters.user is not None:
        found["user"] = Q(user=filters.user)
    if filters.text:
        found["text"] = _called(filters.text)
    if filters.gpu_types:
        found["gpu_types"] = holding("gpu_types", "$", filters.gpu_types)
    if filters.tag:
        found["tag"] = holding("config", "$.tags", (filters.tag,))
    if filters.submitted_from:
        found["submitted_from"] = Q(submitted_at__gte=filters.submitted_from)
    if filters.submitted_to:
        found["submitted_to"] = Q(submitted_at__lt=filters.submitted_to)
    if filters.ended_from:
        found["ended_from"] = Q(ended_at__gte=filters.ended_from)
    return found


def _plain(filters: Filters) -> Iterator[tuple[str, Collection[Any]]]:
    yield "state", filters.states
    yield "wanted_class", filters.classes
    yield "reason_code", filters.reasons
    yield "region", filters.regions


def one_of(name: str, ids: tuple[int, ...]) -> Q:
    """Return the condition that a key is one of `ids`; a single one is asked for as such, for its index."""
    return Q(**{name: ids[0]}) if len(ids) == 1 else Q(**{f"{name}__in": ids})


def _called(text: str) -> Q:
    by_name = Q(task_flag__icontains=text)
    pk = number(text.lstrip("#"))
    return by_name if pk is None else by_name | Q(pk=pk)


def holding(column: str, path: str, values: tuple[Any, ...]) -> Q:
    """Return the condition that a list inside a JSON column holds one of `values`."""
    found = Q()
    for value in values:
        if connection.vendor == "postgresql":
            inner: Any = F(column) if path == "$" else F(f"{column}__{path.removeprefix('$.')}")
            found |= Q(_Contains(inner, Value([value], JSONField())))
        else:
            table = Task._meta.db_table
            sql = f'EXISTS (SELECT 1 FROM json_each("{table}"."{column}", %s) AS one WHERE one.value = %s)'
            found |= Q(RawSQL(sql, [path, value], BooleanField()))
    return found


class _Contains(Func):
    """PostgreSQL's test whether one JSON value contains another."""

    template = "(%(expressions)s)"
    arg_joiner = " @> "
    output_field = BooleanField()


def number(text: str) -> int | None:
    """Return an id written in plain digits; the database takes 63 bits at most."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
    return found if found is not None and found < 2**63 else None
