"""The calls of the API, one function each, for whichever way they are sent."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

VERBS = ("stop", "hold", "release", "free")  # what can be done to a task besides trying it again


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: what can be repeated without harm is, where no answer came."""

    method: str = "GET"
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


def submit(document: Mapping[str, Any], *, origin: int | None, key: str | None) -> Call:
    """Submit a document; a key of its own makes repeating it harmless."""
    return Call(
        method="POST",
        path="tasks/",
        params={} if origin is None else {"origin": origin},
        json=dict(document),
        headers={"Idempotency-Key": key or uuid.uuid4().hex},
    )


def submit_many(documents: Sequence[Mapping[str, Any]], *, key: str | None) -> Call:
    """Submit many documents at once; each has its own result."""
    return Call(
        method="POST",
        path="tasks/bulk/",
        json={"tasks": [dict(document) for document in documents]},
        headers={"Idempotency-Key": key or uuid.uuid4().hex},
    )


def preview(document: Mapping[str, Any], *, origin: int | None, alternatives: bool) -> Call:
    """Ask what would become of a document."""
    params: dict[str, str | int] = {} if origin is None else {"origin": origin}
    if alternatives:
        params["alternatives"] = 1
    return Call(method="POST", path="tasks/preview/", params=params, json=dict(document))


def task(task_id: int) -> Call:
    """Ask for one task."""
    return Call(path=f"tasks/{task_id}/")


def tasks(filters: Mapping[str, str | int | None]) -> Call:
    """Ask for the first page of tasks; the names of filters are the API's, `None` filters nothing."""
    return Call(path="tasks/", params={name: value for name, value in filters.items() if value is not None})


def steer(task_id: int, verb: str) -> Call:
    """Stop, hold or release a task, or free its kept place."""
    if verb not in VERBS:
        raise ValueError(f"a task can be asked to {', '.join(VERBS)}, not to {verb!r}")
    return Call(method="POST", path=f"tasks/{task_id}/{verb}/", headers={"Idempotency-Key": uuid.uuid4().hex})


def retry(task_id: int) -> Call:
    """Make a new task of the same document."""
    return Call(method="POST", path=f"tasks/{task_id}/retry/", headers={"Idempotency-Key": uuid.uuid4().hex})


def steer_many(verb: str, ids: Sequence[int] | None, filters: Mapping[str, str]) -> Call:
    """Do it to these tasks, or to all that match filters."""
    if verb not in (*VERBS, "retry") or bool(ids) == bool(filters):
        raise ValueError("name a verb, and either ids or filters")
    return Call(
        method="POST",
        path=f"tasks/bulk/{verb}/",
        json={"ids": list(ids)} if ids else {"filter": dict(filters)},
        headers={"Idempotency-Key": uuid.uuid4().hex},
    )


def events(task_id: int, *, after: int, wait_s: int) -> Call:
    """Ask what happened to a task behind an event, or wait for it."""
    return Call(
        path=f"tasks/{task_id}/events/", params={"after": after} | ({"wait": wait_s} if wait_s else {})
    )


def log(task_id: int, *, attempt: int | None, rank: int, offset: int, wait_s: int) -> Call:
    """Ask for the bytes of a log from an offset on, or wait for them."""
    params: dict[str, str | int] = {"rank": rank, "offset": offset}
    if attempt is not None:
        params["attempt"] = attempt
    if wait_s:
        params["wait"] = wait_s
    return Call(path=f"tasks/{task_id}/log/", params=params)
