"""Tasks as the API shows them, built lean from plain rows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from rest_framework.request import Request

from cluster import clock, inventory, stuck
from cluster.fresh import Fresh
from cluster.models import CardLease, Instance
from jobs import endings, losses, task_events
from jobs.engine import ask, forecasts
from jobs.models import Attempt, Priority, Task
from jobs.services import Made

COLUMNS = (
    "id",
    "task_flag",
    "business__flag",
    "user__username",
    "state",
    "wanted_class",
    "host_num",
    "host_gpu_num",
    "gpu_types",
    "region__name",
    "priority",
    "submitted_at",
    "queued_at",
    "ended_at",
    "reason_code",
    "reason_args",
    "origin_id",
)
PRIORITIES = {priority.value: priority.name.lower() for priority in Priority}


def columns(tasks: QuerySet[Task]) -> "QuerySet[Task, dict[str, Any]]":
    """Return the plain rows that `shown` reads."""
    rows: QuerySet[Task, dict[str, Any]] = tasks.values(*COLUMNS)
    return rows


_type_names = Fresh(inventory.type_names, 2.0)


def _types(rows: Iterable[dict[str, Any]]) -> dict[int, str]:
    """Return the names of GPU types by id, as they were a moment ago, and those that are newer."""
    names = _type_names.get()
    if any(pk not in names for row in rows for pk in row["gpu_types"]):
        _type_names.forget()
        names = _type_names.get()
    return names


def shown(request: Request, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of tasks in the API's words; one query at most."""
    rows = list(rows)
    types = _types(rows)
    root = _root(request)
    return [_shown(row, types, root) for row in rows]


def just_made(request: Request, task: Task) -> dict[str, Any]:
    """Return a task that was made a moment ago, with all that it names at hand, in the words of the list."""
    return shown(request, [_row(task)])[0]


def many_made(request: Request, made: Iterable[Made]) -> Iterator[dict[str, Any]]:
    """Return tasks that were made a moment ago; what they say alike is worked out once."""
    made = list(made)
    likes = {one.like.pk: one.like for one in made}
    alike = dict(zip(likes, shown(request, [_row(like) for like in likes.values()]), strict=True))
    root = _root(request)
    for one in made:
        yield alike[one.like.pk] | {"id": one.id, "task_flag": one.task_flag, "url": _url(root, one.id)}


def _row(task: Task) -> dict[str, Any]:
    names = {
        "business__flag": task.business.flag,
        "user__username": task.user.get_username(),
        "region__name": task.region.name if task.region else None,
    }
    return names | {name: getattr(task, name) for name in COLUMNS if name not in names}


def many(request: Request, ids: list[int]) -> list[dict[str, Any]]:
    """Return these tasks in this order, in the words of the list; two queries."""
    found = {row["id"]: row for row in columns(Task.objects.filter(pk__in=ids))}
    return shown(request, [found[pk] for pk in ids if pk in found])


def one(request: Request, task_id: int) -> dict[str, Any]:
    """Return one task in the words of the list."""
    return shown(request, columns(Task.objects.filter(pk=task_id)))[0]


def _root(request: Request) -> str:
    return request.build_absolute_uri(reverse("tasks"))


def _url(root: str, pk: int) -> str:
    """Return the address of a task's page, as Django would write it, for a thousand of them."""
    return f"{root}{pk}/"


def _shown(row: dict[str, Any], types: dict[int, str], root: str) -> dict[str, Any]:
    reason = ask.sentence(row["reason_code"], row["reason_args"]) if row["reason_code"] else None
    return {
        "id": row["id"],
        "task_flag": row["task_flag"],
        "business": row["business__flag"],
        "user": row["user__username"],
        "state": row["state"],
        "class": row["wanted_class"],
        "reason": reason,
        "host_num": row["host_num"],
        "host_gpu_num": row["host_gpu_num"],
        "gpu_types": [types[pk] for pk in row["gpu_types"] if pk in types],
        "region": row["region__name"],
        "priority": PRIORITIES[row["priority"]],
        "submitted_at": row["submitted_at"],
        "queued_at": row["queued_at"],
        "ended_at": row["ended_at"],
        "origin": row["origin_id"],
        "url": _url(root, row["id"]),
    }


def detail(request: Request, task: Task) -> dict[str, Any]:
    """Return all that may be said of a task: the list's words, its config, place in line and attempts."""
    attempts = list(task.attempts.select_related("gpu_type", "evicted_for__business").order_by("number"))
    ahead = forecasts.outlook(task) or forecasts.Outlook()
    return one(request, task.pk) | {
        "config": task.config,
        "model_id": task.code_id and str(task.code_id),
        "dataset_id": task.dataset_id and str(task.dataset_id),
        "place": {"position": ahead.position, "of": ahead.of} if ahead.position else None,
        "estimated_start": ahead.start,
        "estimate_basis": ask.basis_said(ahead.basis),
        "evictions": sum(attempt.outcome == Attempt.Outcome.EVICTED for attempt in attempts),
        "attempts": _attempts(task, attempts),
    }


def _attempts(task: Task, attempts: list[Attempt]) -> list[dict[str, Any]]:
    members = _members([attempt.pk for attempt in attempts])
    return [
        {
            "attempt": attempt.number,
            "class": attempt.task_class,
            "gpu_type": attempt.gpu_type.name,
            "cards": attempt.cards,
            "started_at": attempt.created_at,
            "running_at": attempt.running_at,
            "ended_at": attempt.ended_at,
            "outcome": attempt.outcome or None,
            **_ending(attempt),
            "evicted_for": attempt.evicted_for_id,
            "evicted_for_business": attempt.evicted_for and attempt.evicted_for.business.flag,
            "evict_rule": attempt.evict_rule or None,
            "evict_rule_said": task_events.rule({"rule": attempt.evict_rule}) or None,
            "lost_work": losses.said(attempt, task) or None,
            "commit": next((member["commit"] for member in members[attempt.pk] if member["commit"]), None),
            "hosts": members[attempt.pk],
        }
        for attempt in attempts
    ]


def _ending(attempt: Attempt) -> dict[str, str | None]:
    """Return why an attempt ended, or is ending: the code, its sentence, and what can be done about it."""
    code = attempt.outcome_code or attempt.ending_code
    message = endings.sentence(code, attempt.outcome_args) if code else ""
    if code == Attempt.Outcome.EVICTED:
        causer = attempt.evicted_for
        flag = causer.business.flag if causer else ""
        message = task_events.evicted(attempt.evict_rule, attempt.evicted_for_id, flag) or message
    return {"code": code or None, "message": message or None, "advice": endings.advice(code) or None}


def _members(attempts: list[int]) -> dict[int, list[dict[str, Any]]]:
    """Return the members of each attempt by rank, with the numbers of their cards; two queries."""
    cards: dict[Any, list[int]] = defaultdict(list)
    leases = CardLease.objects.filter(instance__gang__in=attempts).order_by("card__index")
    for instance, index in leases.values_list("instance_id", "card__index"):
        cards[instance].append(index)
    names = ("rank", "phase", "exit_code", "exit_signal", "detail", "commit", "log_removed_at")
    rows = Instance.objects.filter(gang__in=attempts).order_by("gang", "rank")
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    now = clock.now()
    for row in rows.values("id", "gang", "host__name", "stop_asked_at", "host__lost_since", *names):
        member = {name: row[name] for name in names}
        stuck_so = stuck.sentence(row["phase"], row["stop_asked_at"], row["host__lost_since"], now)
        member["detail"] = stuck_so or row["detail"]
        found[row["gang"]].append({"host": row["host__name"], "cards": cards[row["id"]], **member})
    return found
