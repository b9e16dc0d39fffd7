"""What the database says at one moment, as plain records for the rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.db import connection, models, transaction
from django.db.models import Q

from cluster import models as cluster
from jobs import models as jobs
from jobs.states import TERMINAL
from quotas import models as quotas


@dataclass(frozen=True, slots=True)
class Task:
    """A task."""

    id: int
    state: str
    wanted_class: str
    business: int
    host_num: int
    host_gpu_num: int
    pull_up: bool
    ready_at: datetime | None
    reason_code: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt; `business` is its task's."""

    id: int
    task: int
    number: int
    task_class: str
    gpu_type: int
    cards: int
    created_at: datetime
    ended_at: datetime | None
    ending: str
    ending_at: datetime | None
    outcome: str
    evicted_for: int | None
    evict_rule: str
    business: int


@dataclass(frozen=True, slots=True)
class Instance:
    """A member of an attempt, which is its `gang`."""

    id: str
    host: int
    gang: int
    rank: int
    phase: str
    detail: str
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class Lease:
    """A card given to an instance."""

    id: int
    card: int
    instance: str
    gang: int
    leased_at: datetime
    released_at: datetime | None


@dataclass(frozen=True, slots=True)
class Card:
    """A card of a host."""

    id: int
    host: int
    index: int
    state: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a task."""

    id: int
    task: int
    at: datetime
    old: str
    new: str
    code: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage row of an attempt."""

    attempt: int
    task: int
    cards: int
    seconds: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Cards held for a task."""

    task: int
    hosts: Mapping[str, int]
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Quota:
    """What a business may hold with high tasks."""

    business: int
    gpu_type: int
    cards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """All of it, of one moment of the database; of tasks those that are not over, or ended lately."""

    tasks: Mapping[int, Task]
    attempts: tuple[Attempt, ...] = ()
    instances: tuple[Instance, ...] = ()
    leases: tuple[Lease, ...] = ()
    cards: tuple[Card, ...] = ()
    events: tuple[Event, ...] = ()
    usage: tuple[Usage, ...] = ()
    claims: tuple[Claim, ...] = ()
    quotas: tuple[Quota, ...] = ()
    hosts: Mapping[int, str] = field(default_factory=dict)  # names


def load(ended_since: datetime | None = None) -> Rows:
    """Return what is there; with `ended_since`, of the tasks that are over only those that ended later.

    Raises django.db.DatabaseError where the database is away.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return read(ended_since)


def read(ended_since: datetime | None = None) -> Rows:
    """Return the same in the caller's transaction."""
    found = jobs.Task.objects.order_by("id")
    if ended_since is not None:
        found = found.filter(~Q(state__in=TERMINAL) | Q(ended_at__gte=ended_since))
    tasks = _records(
        Task,
        found,
        *("id", "state", "wanted_class", "business_id", "host_num", "host_gpu_num", "pull_up"),
        *("ready_at", "reason_code"),
    )
    ids = [task.id for task in tasks]
    attempts = _records(
        Attempt,
        jobs.Attempt.objects.filter(task__in=ids).order_by("task_id", "number"),
        *("id", "task_id", "number", "task_class", "gpu_type_id", "cards", "created_at", "ended_at"),
        *("ending", "ending_at", "outcome", "evicted_for_id", "evict_rule", "task__business_id"),
    )
    return Rows(
        tasks={task.id: task for task in tasks},
        attempts=attempts,
        **_running([attempt.id for attempt in attempts]),
        **_told(ids),
    )


def _running(attempts: list[int]) -> dict[str, Any]:
    """Return what runs of these attempts, and where."""
    instances = cluster.Instance.objects.filter(gang__in=attempts).order_by("gang", "rank")
    leases = cluster.CardLease.objects.filter(Q(gang__in=attempts) | Q(released_at=None)).order_by("id")
    return {
        "instances": _records(
            Instance, instances, "id", "host_id", "gang", "rank", "phase", "detail", "exit_code"
        ),
        "leases": _records(Lease, leases, "id", "card_id", "instance_id", "gang", "leased_at", "released_at"),
        "cards": _records(Card, cluster.Card.objects.order_by("id"), "id", "host_id", "index", "state"),
        "hosts": dict(cluster.Host.objects.values_list("id", "name")),
        "usage": _records(
            Usage,
            quotas.UsageRow.objects.filter(attempt__in=attempts).order_by("id"),
            *("attempt", "task", "cards", "seconds", "outcome"),
        ),
    }


def _told(tasks: list[int]) -> dict[str, Any]:
    """Return what is written about these tasks, and for whom cards are held."""
    events = jobs.TaskEvent.objects.filter(task__in=tasks).order_by("id")
    overall = quotas.Quota.objects.filter(region=None).order_by("id")
    return {
        "events": _records(Event, events, "id", "task_id", "at", "old_state", "new_state", "code", "args"),
        "claims": _records(Claim, jobs.Claim.objects.order_by("id"), "task_id", "hosts", "made_at"),
        "quotas": _records(Quota, overall, "business_id", "gpu_type_id", "cards"),
    }


R = TypeVar("R")


def _records(kind: type[R], found: "models.QuerySet[Any]", *columns: str) -> tuple[R, ...]:
    return tuple(kind(*map(_plain, row)) for row in _values(found, columns))


def _values(found: "models.QuerySet[Any]", columns: Iterable[str]) -> Iterable[tuple[Any, ...]]:
    return found.values_list(*columns)


def _plain(value: Any) -> Any:
    return str(value) if hasattr(value, "hex") and hasattr(value, "int") else value
