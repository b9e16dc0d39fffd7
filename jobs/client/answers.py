"""What the platform answers, as far as a client may rely on it; times are ISO 8601 in UTC."""

from dataclasses import dataclass
from typing import Any, TypedDict


class Reason(TypedDict):
    """Why a task waits, or on what an estimate stands."""

    code: str
    message: str


class Place(TypedDict):
    """A place in line."""

    position: int
    of: int


# "class" is a word of Python, so these are written as calls.
Task = TypedDict(
    "Task",
    {
        "id": int,
        "task_flag": str,
        "business": str,
        "user": str,
        "state": str,
        "class": str,
        "reason": Reason | None,
        "host_num": int,
        "host_gpu_num": int,
        "gpu_types": list[str],
        "region": str | None,
        "priority": str,
        "submitted_at": str,
        "queued_at": str,
        "ended_at": str | None,
        "origin": int | None,
        "url": str,
    },
)


class Member(TypedDict):
    """One member of an attempt: its host and cards, and how it ended."""

    host: str
    cards: list[int]
    rank: int
    phase: str
    exit_code: int | None
    exit_signal: int | None
    detail: str
    commit: str


Attempt = TypedDict(
    "Attempt",
    {
        "attempt": int,
        "class": str,
        "gpu_type": str,
        "cards": int,
        "started_at": str,
        "running_at": str | None,
        "ended_at": str | None,
        "outcome": str | None,
        "code": str | None,
        "message": str | None,
        "advice": str | None,
        "evicted_for": int | None,
        "evicted_for_business": str | None,
        "evict_rule": str | None,
        "evict_rule_said": str | None,
        "lost_work": str | None,
        "commit": str | None,
        "hosts": list[Member],
    },
)


class TaskDetail(Task):
    """All that may be said of a task."""

    config: dict[str, Any]
    place: Place | None
    estimated_start: str | None
    estimate_basis: Reason | None
    evictions: int
    attempts: list[Attempt]


class Submitted(TypedDict):
    """What became of one document among many: 201 and its task, or 400 and its faults."""

    status: int
    task: Task | None
    errors: list[dict[str, str]]


class Moved(TypedDict):
    """What became of many tasks: how many were moved, and why others were left."""

    done: int
    by_state: dict[str, int]
    skipped: list[dict[str, Any]]
    refusals: list[str]
    more: bool


class Event(TypedDict):
    """Something that happened to a task."""

    id: int
    at: str
    code: str
    message: str
    old_state: str | None
    new_state: str | None
    attempt: int | None
    actor: str | None


class Events(TypedDict):
    """Events behind one; `last` is what to ask behind next, `over`: nothing will happen any more."""

    results: list[Event]
    last: int
    over: bool


class Verdict(TypedDict):
    """What would become of a document: starts, starts_after_evicting, queues or never."""

    verdict: str
    reason: dict[str, Any] | None
    where: dict[str, Any] | None
    evicts: list[dict[str, Any]]
    position: int | None
    of: int | None
    estimated_start: str | None
    estimate_basis: Reason | None
    faults: list[dict[str, str]]
    alternatives: list[dict[str, Any]]


class FreeCards(TypedDict):
    """Free cards of a type in a region, as a range; `high` null: no upper end."""

    region: str
    gpu_type: str
    low: int
    high: int | None
    largest_block: int
    as_of: str


class Quota(TypedDict):
    """A quota and what is used of it; cards, `region` null: in all regions together."""

    id: int
    business: str
    gpu_type: str
    region: str | None
    cards: int
    used: int
    elastic_cards: int | None
    elastic_used: int
    user_elastic_cards: int | None


class Host(TypedDict):
    """A host and its cards."""

    id: int
    name: str
    region: str
    state: str
    reason: str
    trouble: str
    last_seen_at: str | None
    agent_version: str
    cards: list[dict[str, Any]]


class Business(TypedDict):
    """A business that the caller may submit for."""

    id: int
    business_flag: str
    name: str
    default_gpu_types: list[str]


@dataclass(frozen=True, slots=True)
class LogPart:
    """A piece of a log: its bytes from `offset` on, and where the log ended when it was read."""

    offset: int
    data: bytes
    end: int
