"""The way of a task from its submission to its end, with the time of each step."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

from jobs.durations import hms
from jobs.models import Task
from jobs.portal import history, rows, words
from jobs.states import WAITING, State

Stand = Literal["done", "now", "ahead", "skipped"]
SUBMITTED, QUEUED = pgettext_lazy("step", "Submitted"), pgettext_lazy("step", "Queued")
STARTING, RUNNING = pgettext_lazy("step", "Starting"), pgettext_lazy("step", "Running")
ENDED = pgettext_lazy("step", "Ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: when it was reached, and how long it took."""

    label: str | Promise
    stand: Stand
    at: datetime | None = None
    until: datetime | None = None  # None: it lasts, or was never reached

    @property
    def took(self) -> str:
        """Return how long it took as h:mm:ss; blank while it lasts."""
        if self.at is None or self.until is None:
            return ""
        return hms(max(self.until - self.at, timedelta()))

    @property
    def lasts(self) -> rows.Lasting | None:
        """Return how long it lasts so far; None where it does not."""
        return rows.Lasting.since(self.at) if self.stand == "now" and self.at else None


def steps(task: Task, last: history.Run | None) -> list[Step]:
    """Return the steps of the task's present round: of the attempt that is or was last, or of the wait before it.

    A task that was evicted and waits again has its first submission time and stands at "queued".
    """
    run = None if task.state in WAITING else last
    starts = run.created_at if run else None
    runs = run.running_at if run else None
    free = run.ended_at if run else None
    over = task.ended_at
    return [
        Step(label=SUBMITTED, stand="done", at=task.submitted_at, until=None),
        Step(
            label=_queued(task),
            stand="now" if task.state in WAITING else "done",
            at=task.queued_at,
            until=starts or over,
        ),
        _reached(STARTING, starts, runs or free, now=task.state == State.STARTING, ahead=not over),
        _reached(
            _running(task), runs, free, now=bool(runs) and not free and not over, ahead=not (over or free)
        ),
        Step(label=_ended(task), stand="done" if over else "ahead", at=over),
    ]


def _reached(
    label: str | Promise, at: datetime | None, until: datetime | None, *, now: bool, ahead: bool
) -> Step:
    if at is None:
        return Step(label=label, stand="ahead" if ahead else "skipped")
    return Step(label=label, stand="now" if now else "done", at=at, until=until)


def _queued(task: Task) -> str | Promise:
    """Return the word for the wait: a task that is held or blocked does not stand in line."""
    return words.STATES[task.state] if task.state in {State.HELD, State.BLOCKED} else QUEUED


def _running(task: Task) -> str | Promise:
    leaving = {State.EVICTING, State.STOPPING, State.KEEPING}
    return words.STATES[task.state] if task.state in leaving else RUNNING


def _ended(task: Task) -> str | Promise:
    return words.STATES.get(task.state, task.state) if task.ended_at else ENDED
