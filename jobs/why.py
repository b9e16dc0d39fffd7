"""Why a task waits, or ended as it did: a code for programs and a sentence for people."""

from collections.abc import Iterable

from django.db.models import OuterRef, Subquery

from jobs import endings
from jobs.engine import ask
from jobs.models import Attempt, Task
from jobs.states import WAITING

SAYS_ITSELF = frozenset({"", "succeeded", "stop", "evicted"})  # ends that are no more than the state says


def waits_because(task: Task) -> str:
    """Return the sentence that says why a task waits; blank where it does not, or no pass saw it yet."""
    reason = ask.reason(task) if task.state in WAITING else None
    return reason["message"] if reason else ""


def last_attempts(task_ids: Iterable[int]) -> dict[int, Attempt]:
    """Return the last attempt by task: what it became, where it is one of several, and how it ended."""
    last = Attempt.objects.filter(task=OuterRef("task")).order_by("-number").values("number")[:1]
    found = Attempt.objects.filter(task__in=list(task_ids), number=Subquery(last))
    columns = found.only(
        *("task_id", "task_class", "gpu_type_id", "running_at", "ended_at", "outcome_code", "outcome_args")
    )
    return {attempt.task_id: attempt for attempt in columns}


def why(task: Task, last: Attempt | None) -> tuple[str, str]:
    """Return why a task waits, or ended as it did: the code and the sentence; blank where its state says all."""
    if task.state in WAITING:
        return task.reason_code, waits_because(task)
    if not task.is_over or last is None or last.outcome_code in SAYS_ITSELF:
        return "", ""
    return last.outcome_code, endings.sentence(last.outcome_code, last.outcome_args)
