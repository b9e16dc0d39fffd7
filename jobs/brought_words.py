"""What the owner of an MPIJob is told in the cluster of its task: where that stands, why, and what happened."""

from collections.abc import Iterable

from cluster.models import BroughtNews
from cluster.mpijob_asks import GROUP
from jobs import endings, task_events
from jobs.engine import ask, forecasts
from jobs.models import Attempt, Task, TaskEvent
from jobs.states import WAITING, State
from jobs.values import Fault

WARNINGS = frozenset({State.FAILED, State.EVICTED, State.EVICTING})
# The fields of a document that stand elsewhere in an MPIJob.
PLACES = {
    "business_flag": f"the label {GROUP}/business",
    "is_elasticity": f"the annotation {GROUP}/class",
    "enable_evicted_pulled_up": f"the annotation {GROUP}/pull-up",
    "GPUName": f"the annotation {GROUP}/gpu-type",
    "task_flag": f"the annotation {GROUP}/name",
    "priority": f"the annotation {GROUP}/priority",
    "time_limit": f"the annotation {GROUP}/time-limit",
    "host_num": "spec.mpiReplicaSpecs.Worker.replicas",
    "host_gpu_num": "the limit of cards of the workers",
    "region": "the cluster",
}


def refusal(faults: Iterable[Fault]) -> str:
    """Return all faults of a document in the words of the MPIJob that it was read from."""
    return " ".join(f"{PLACES.get(each.field, each.field) or 'document'}: {each.message}" for each in faults)


def standing(task: Task) -> str:
    """Return where a task stands: why it waits, what could be done, its place in line, or how it ended."""
    if task.is_over:
        return _ended(task)
    if task.state != State.QUEUED:
        return f"Task {task.pk} is {task.state}."
    if not task.reason_code:
        return f"Task {task.pk} waits for the next look of the scheduler."
    said = ask.said(task.reason_code, task.reason_args)
    advice = f" What could be done: {said.advice}." if said.advice else ""
    return f"Task {task.pk} waits: {said.message}.{_place(task)}{advice}"


def _ended(task: Task) -> str:
    last = task.attempts.order_by("number").last()
    if last is None:
        return f"Task {task.pk} is {task.state}."
    said = endings.sentence(last.outcome_code, last.outcome_args)
    return f"Task {task.pk} is {task.state}: {said}. {endings.advice(last.outcome_code)}".strip()


def _place(task: Task) -> str:
    outlook = forecasts.outlook(task)
    if outlook is None or not outlook.position:
        return ""
    return f" Place {outlook.position} of {outlook.of} in line."


def news(job: int, task: Task, events: Iterable[TaskEvent]) -> list[BroughtNews]:
    """Return what is to be told of these events of a task, in their order; the last one with where it stands."""
    told = [
        BroughtNews(
            job_id=job,
            at=event.at,
            reason=_reason(event),
            warning=event.new_state in WARNINGS,
            message=_message(task, event),
        )
        for event in events
        if event.new_state
    ]
    if told and task.state in WAITING:
        told[-1].message = f"{told[-1].message} {standing(task)}"
    return told


def _reason(event: TaskEvent) -> str:
    """Return an event in one word."""
    if event.code == "started_again":
        before = (
            Attempt.objects.filter(task=event.task_id).exclude(pk=event.attempt_id or 0).order_by("-number")
        )
        was = before.values_list("outcome", flat=True).first()
        return "TaskPulledUp" if was == Attempt.Outcome.EVICTED else "TaskStartedAgain"
    if event.code == "evicted" and event.new_state == State.QUEUED:
        return "TaskEvicted"
    word = "started" if event.new_state == State.STARTING else event.new_state
    return f"Task{word.title()}"


def _message(task: Task, event: TaskEvent) -> str:
    said = task_events.sentence(event.code, event.args, event.new_state)
    if rule := task_events.rule(event.args):
        said = f"{said}: {rule}"
    if cause := event.args.get("for"):
        said = f"{said}, for task {cause}"
    return f"Task {task.pk}: {said}."
