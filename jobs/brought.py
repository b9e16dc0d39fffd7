"""MPIJobs that people bring become tasks: submitted, stopped when they are deleted, told where their task stands."""

import logging
from collections.abc import Iterable

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import translation

from cluster.models import BroughtJob
from jobs import endings, services
from jobs.engine import ask
from jobs.models import Task
from jobs.states import TERMINAL, State
from jobs.values import Invalid

log = logging.getLogger(__name__)
REFUSED = "refused"
OVER = (REFUSED, *sorted(state.value for state in TERMINAL))


def adopt() -> None:
    """Bring every brought job and its task together; what is so already costs one query."""
    with translation.override("en"):  # what is said of them stands in the cluster, for everybody there
        for row in BroughtJob.objects.filter(task=None, state="", deleted=False).order_by("pk"):
            _submit(row)
        _follow(BroughtJob.objects.exclude(task=None).exclude(state__in=OVER).order_by("pk"))


def _submit(row: BroughtJob) -> None:
    """Make the task, or say why there can be none."""
    faults = list(row.faults)
    owner = User.objects.filter(username=row.owner, is_active=True).first()
    if owner is None and row.owner:
        faults.append(f"Nobody here is called {row.owner}: log in once, or ask an operator.")
    if owner is None or faults:
        _write(row, REFUSED, " ".join(faults))
        return
    job = {"namespace": row.namespace, "name": row.name, "uid": row.uid}
    try:
        with transaction.atomic():
            # One at a time, so that two who adopt make one task.
            row = BroughtJob.objects.select_for_update().get(pk=row.pk, task=None)
            row.task = services.submit(owner, row.document, mpijob=job).pk
            row.save(update_fields=["task"])
    except BroughtJob.DoesNotExist:
        return
    except Invalid as invalid:
        _write(row, REFUSED, str(invalid))


def _follow(rows: Iterable[BroughtJob]) -> None:
    brought = list(rows)
    tasks = Task.objects.select_related("user").in_bulk([row.task for row in brought])
    for row in brought:
        task = tasks.get(row.task or 0)
        if task is None:
            continue
        if row.deleted and not task.is_over and task.state != State.STOPPING:
            _stop(task)
        sentence = _sentence(task)
        if row.state != task.state or (sentence and not row.sentence):
            _write(row, task.state, sentence)


def _stop(task: Task) -> None:
    try:
        services.stop(task, task.user)
    except services.Conflict as over:
        log.info("task %s needs no stop: %s", task.pk, over)


def _sentence(task: Task) -> str:
    """Say why a task waits or how it ended; blank where there is nothing to say."""
    if task.is_over:
        last = task.attempts.order_by("number").last()
        return endings.sentence(last.outcome_code, last.outcome_args) if last else ""
    if task.state == State.QUEUED and task.reason_code:
        return ask.said(task.reason_code, task.reason_args).message
    return ""


def _write(row: BroughtJob, state: str, sentence: str) -> None:
    BroughtJob.objects.filter(pk=row.pk).update(state=state, sentence=sentence)
