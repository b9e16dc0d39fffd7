"""MPIJobs that people bring become tasks: submitted, stopped when they are deleted, told where their task stands."""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max, Q
from django.utils import translation

from cluster import clock
from cluster.models import BroughtJob, BroughtNews
from jobs import brought_words, services
from jobs.models import Task, TaskEvent
from jobs.states import TERMINAL, State
from jobs.values import Invalid
from quotas.models import DefaultGpuType

log = logging.getLogger(__name__)
REFUSED = BroughtJob.REFUSED
OVER = (REFUSED, *sorted(state.value for state in TERMINAL))
AGAIN = timedelta(seconds=30)  # why it waits changes with every pass: it is told anew after so long
LOOK_AGAIN = timedelta(minutes=2)  # what was refused may be a task by now: its business, its owner are there
UNSEEN = timedelta(seconds=20)  # a pass is given so long to say why it waits, before anything is told


def adopt() -> None:
    """Bring every brought job and its task together; what is so already costs four queries."""
    with translation.override("en"):  # what is said of them stands in the cluster, for everybody there
        again = Q(state=REFUSED, said_at__lt=clock.now() - LOOK_AGAIN)
        for row in BroughtJob.objects.filter(Q(state="") | again, task=None, deleted=False).order_by("pk"):
            _submit(row)
        _follow(BroughtJob.objects.exclude(task=None).exclude(state__in=OVER).order_by("pk"))


def _submit(row: BroughtJob) -> None:
    """Make the task, or say why there can be none."""
    faults = list(row.faults)
    owner = User.objects.filter(username=row.owner, is_active=True).first()
    if owner is None and row.owner:
        faults.append(f"Nobody here is called {row.owner}: log in once, or ask an operator.")
    if owner is None or faults:
        _refuse(row, " ".join(faults))
        return
    job = {"namespace": row.namespace, "name": row.name, "uid": row.uid}
    try:
        with transaction.atomic():
            # One at a time, so that two who adopt make one task.
            row = BroughtJob.objects.select_for_update().get(pk=row.pk, task=None)
            row.task, row.state = services.submit(owner, _typed(row), mpijob=job).pk, ""
            row.save(update_fields=["task", "state"])
    except BroughtJob.DoesNotExist:
        return
    except Invalid as invalid:
        _refuse(row, brought_words.refusal(invalid.faults))


def _typed(row: BroughtJob) -> dict[str, Any]:
    """Return its document with the types of cards: those named, else the business's own that its cluster has for what
    it asks, else all that the cluster has for that."""
    if row.document.get("GPUName") or not row.types:
        return dict(row.document)
    flag = row.document.get("business_flag", "")
    own = DefaultGpuType.objects.filter(business__flag=flag).values_list("gpu_type__name", flat=True)
    chosen = [name for name in own if name in row.types] or row.types
    return {**row.document, "GPUName": ",".join(chosen)}


def _refuse(row: BroughtJob, sentence: str) -> None:
    """Say so; of what was refused for the same before, only that it was looked at again."""
    now = clock.now()
    with transaction.atomic():
        as_it_was = BroughtJob.objects.filter(pk=row.pk, task=None, state=row.state, said_at=row.said_at)
        refused = as_it_was.update(state=REFUSED, sentence=sentence, said_at=now)
        if refused and sentence != row.sentence:
            BroughtNews.objects.create(job=row, at=now, reason="TaskRefused", warning=True, message=sentence)


def _follow(rows: Iterable[BroughtJob]) -> None:
    brought, now = list(rows), clock.now()
    newest = _newest([row.task for row in brought if row.task])
    tasks = Task.objects.select_related("user").in_bulk(list(newest))
    for row in brought:
        task = tasks.get(row.task or 0)
        if task is None:
            continue
        if row.deleted and not task.is_over and task.state != State.STOPPING:
            _stop(task)
        last, at = newest.get(task.pk, (0, now))
        if last > row.heard:
            is_unseen = task.state == State.QUEUED and not task.reason_code and now - at < UNSEEN
            if not is_unseen:
                _tell(row, task, last, now)
        elif row.said_at is None or now - row.said_at >= AGAIN:
            _say(row, task, now)


def _newest(tasks: Sequence[int]) -> dict[int, tuple[int, datetime]]:
    """Return of each task the number and the time of its last event, in one query."""
    last = TaskEvent.objects.filter(task__in=tasks).order_by().values("task").annotate(Max("pk"), Max("at"))
    return {row["task"]: (row["pk__max"], row["at__max"]) for row in last}


def _tell(row: BroughtJob, task: Task, last: int, now: datetime) -> None:
    """Have the owner told of what happened, once: of two who follow, the second changes nothing."""
    events = list(TaskEvent.objects.filter(task=task, pk__gt=row.heard, pk__lte=last).order_by("pk"))
    # As the last of these events left it: where the task went further meanwhile, that is told next.
    state = next((event.new_state for event in reversed(events) if event.new_state), row.state)
    told = [] if row.deleted else brought_words.news(row.pk, task, events)
    sentence = brought_words.standing(task)
    with transaction.atomic():
        as_it_was = BroughtJob.objects.filter(pk=row.pk, heard=row.heard)
        if as_it_was.update(state=state, sentence=sentence, said_at=now, heard=last):
            BroughtNews.objects.bulk_create(told)


def _say(row: BroughtJob, task: Task, now: datetime) -> None:
    """Say anew why a task waits."""
    waits = task.state == row.state == State.QUEUED
    sentence = brought_words.standing(task) if waits else row.sentence
    BroughtJob.objects.filter(pk=row.pk, heard=row.heard).update(sentence=sentence, said_at=now)


def _stop(task: Task) -> None:
    try:
        services.stop(task, task.user)
    except services.Conflict as over:
        log.info("task %s needs no stop: %s", task.pk, over)
