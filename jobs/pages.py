"""Pages of a list of tasks: cut by keys, in an order that an index carries, in bounded time however few tasks fit."""

from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min, Q

from cluster import rows
from jobs import name_search, submitted
from jobs.filters import LAST_ENDED, LONGEST_WAIT, NEWEST, OLDEST, Filters, conditions, number, one_of
from jobs.models import Task, TaskQuerySet
from jobs.states import TERMINAL, WAITING

# Tasks whose columns one page looks at, at most: of neighbours in the table, and of those that lie scattered in it.
LOOKED_AT, SCATTERED = 20_000, 5_000
FEW = 2_000  # so many are sorted without an index
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order of tasks and the index that carries it; the id decides between equals."""

    column: str = ""  # blank: the id alone
    falling: bool = False
    holds: Q = field(default_factory=Q)  # which tasks the index holds


ORDERS = {
    NEWEST: Order(falling=True),
    OLDEST: Order(),
    LONGEST_WAIT: Order(column="queued_at", holds=Q(state__in=sorted(state.value for state in WAITING))),
    LAST_ENDED: Order(column="ended_at", falling=True, holds=Q(ended_at__isnull=False)),
}
NOT_OVER = ~Q(state__in=sorted(state.value for state in TERMINAL))  # as the index has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Where a task stands in an order."""

    pk: int
    at: datetime | None = None

    def __str__(self) -> str:
        if self.at is None:
            return str(self.pk)
        return f"{(self.at - EPOCH) // timedelta(microseconds=1)}.{self.pk}"


Edges = MutableMapping[Hashable, Key | None]  # how far pages look that begin alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The tasks of one page in their order, and the keys behind which the list goes on."""

    ids: list[int]
    above: str | None  # the page before ends above this key
    below: str | None  # the next page begins below this key
    # So many tasks were looked at, which is why it has few rows, or none; 0: it is full, or there are no more.
    cut_short: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    keys: list[Key]  # one more than fits shows that there are more
    edge: Key | None = None  # so far was looked, and further on there may be more
    looked_at: int = 0


def key(text: str, order: str) -> Key | None:
    """Read a key of an address; None for what is none of this order."""
    at, dot, pk = text.rpartition(".")
    found, micros = number(pk), number(at)
    if found is None or bool(dot) != bool(ORDERS[order].column):
        return None
    if not dot:
        return Key(pk=found)
    try:
        return Key(pk=found, at=EPOCH + timedelta(microseconds=micros)) if micros is not None else None
    except OverflowError:
        return None


def cut(
    filters: Filters,
    *,
    below: Key | None = None,
    above: Key | None = None,
    size: int,
    edges: Edges | None = None,
) -> Page:
    """Return the page below a key, above one, or the first. `edges`: of pages in the same moment, to be added to."""
    up, start = above is not None, above or below
    found = _walk(filters, start, up, size, {} if edges is None else edges)
    shown = found.keys[:size]
    on = found.edge or (shown[-1] if len(found.keys) > size else None)
    back = shown[0] if start and shown else start and _beside(start, filters.order, up)
    onward, backward = (str(one) if one else None for one in (on, back))
    ids = [one.pk for one in shown]
    return Page(
        ids=ids[::-1] if up else ids,
        above=onward if up else backward,
        below=backward if up else onward,
        cut_short=found.looked_at,
    )


def _beside(start: Key, order: str, up: bool) -> Key:
    """Return the key from which an empty page is left for where it came from, so that `start` is seen again."""
    falling = ORDERS[order].falling != up
    return replace(start, pk=max(0, start.pk - 1) if falling else min(LAST_ID, start.pk + 1))


def _walk(filters: Filters, start: Key | None, up: bool, size: int, edges: Edges) -> _Found:
    """Look along the index, and where too few are found there, at a small set that holds all of them."""
    order = ORDERS[filters.order]
    falling = order.falling != up
    lane, rest, most = _lane(filters, order)
    holds = str(lane.query.where)  # the conditions of the lane
    alike = (holds, filters.order, start, falling, most)
    lane = _sorted(_beyond(lane, order, start, falling), order, falling)
    if not rest:
        return _Found(keys=_keys(lane[: size + 1], order))
    if alike not in edges:
        edges[alike] = _edge(lane, order, falling, most)
    edge = edges[alike]
    if edge is not None:
        name = order.column or "pk"
        lane = lane.filter(**{f"{name}__{'gte' if falling else 'lte'}": edge.at or edge.pk})
    found = _keys(lane.filter(*rest)[: size + 1], order)
    if edge is None or len(found) > size:
        return _Found(keys=found)
    few = _few(filters)
    if few is None:
        return _Found(keys=found, edge=edge, looked_at=most)
    return _Found(keys=_exactly(filters, few, start, falling)[: size + 1])


def _lane(filters: Filters, order: Order) -> tuple[TaskQuerySet, list[Q], int]:
    """Return the tasks along one index, the conditions that are left to look for, and among how many of them."""
    asked = conditions(filters)
    tasks, most = Task.objects.filter(order.holds), LOOKED_AT
    if order.column:
        return tasks, list(asked.values()), most
    if filters.only_open:
        tasks = tasks.filter(NOT_OVER)
    elif name := next((name for name in ("user", "business", "state") if _single(filters, name)), None):
        tasks, most = tasks.filter(asked.pop(name)), SCATTERED
    if filters.submitted_from:
        tasks = tasks.filter(pk__gte=submitted.ids_from(filters.submitted_from))
    if filters.submitted_to:
        tasks = tasks.filter(pk__lt=submitted.ids_to(filters.submitted_to))
    return tasks, list(asked.values()), most


def _single(filters: Filters, name: str) -> bool:
    """Say whether the filter names one value, so that its index has the order of the ids too."""
    if name == "user":
        return filters.user is not None
    return len((filters.businesses if name == "business" else filters.states) or ()) == 1


def _beyond(tasks: TaskQuerySet, order: Order, start: Key | None, falling: bool) -> TaskQuerySet:
    """Keep the tasks behind `start`. Not by an OR, for which no index is gone along from its middle."""
    if start is None:
        return tasks
    sign = "lt" if falling else "gt"
    if not order.column:
        return tasks.filter(**{f"pk__{sign}": start.pk})
    passed = Q(**{order.column: start.at, f"pk__{'gte' if falling else 'lte'}": start.pk})
    return tasks.filter(~passed, **{f"{order.column}__{sign}e": start.at})


def _sorted(tasks: TaskQuerySet, order: Order, falling: bool) -> TaskQuerySet:
    sign = "-" if falling else ""
    return tasks.order_by(*(f"{sign}{name}" for name in (order.column, "pk") if name))


def _edge(lane: TaskQuerySet, order: Order, falling: bool, most: int) -> Key | None:
    """Return how far one page looks along the lane, read from its index alone; None: to its end."""
    name = order.column or "pk"
    last = (Min if falling else Max)(name)
    seen = lane.values(*dict.fromkeys((name, "pk")))[:most].aggregate(last=last, number=Count("*"))
    if seen["number"] < most:
        return None
    if not order.column:
        return Key(pk=seen["last"])
    return Key(pk=0 if falling else LAST_ID, at=seen["last"])  # all of that moment are looked at


def _keys(tasks: TaskQuerySet, order: Order) -> list[Key]:
    if not order.column:
        return [Key(pk=pk) for pk in tasks.values_list("pk", flat=True)]
    return [Key(pk=pk, at=at) for pk, at in tasks.values_list("pk", order.column)]


def _few(filters: Filters) -> list[int] | None:
    """Return ids among which all are that are looked for, from an index that holds few of them; None: no such."""
    if filters.text:
        named = name_search.ids(filters.text, FEW)
        if named is not None and len(named) < FEW:
            pk = number(filters.text.lstrip("#"))
            return named if pk is None else [*named, pk]
    indexed: list[Q] = []
    if filters.user is not None:
        indexed.append(Q(user=filters.user))
    if filters.ended_from is not None:
        indexed.append(Q(ended_at__gte=filters.ended_from))
    if filters.businesses is not None:
        indexed.append(one_of("business", filters.businesses))
    if filters.regions:
        indexed.append(one_of("region", filters.regions))
    for condition in indexed:
        ids = list(Task.objects.filter(condition).order_by().values_list("pk", flat=True)[:FEW])
        if len(ids) < FEW:
            return ids
    return None


def _exactly(filters: Filters, ids: list[int], start: Key | None, falling: bool) -> list[Key]:
    """Return all that fit among `ids`, behind `start`; sorted here, so that no index is walked for it."""
    order = ORDERS[filters.order]
    tasks = Task.objects.filter(order.holds, *conditions(filters).values(), pk__in=rows.among(ids))
    found = _keys(_beyond(tasks, order, start, falling).order_by(), order)

    def place(one: Key) -> tuple[Any, ...]:
        return (one.at or EPOCH, one.pk)

    return sorted(found, key=place, reverse=falling)
