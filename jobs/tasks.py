"""Celery's door: beat and hints end in one scheduling pass; what is done by the minute and hour is a task each."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from celery import shared_task
from django.conf import settings

from cluster import card_metrics, clock, host_events, host_mails, old_logs, samples, stuck
from jobs import brought, kept_answers, uploads, use
from jobs.engine import forecasts, pass_log, passes, what_ifs
from quotas import card_hours

log = logging.getLogger(__name__)


@shared_task(name="jobs.run_pass", ignore_result=True)
def run_pass() -> None:
    """Run a scheduling pass, unless another one is running for long."""
    passes.run()


def _chore(name: str) -> Callable[[Callable[[], None]], Any]:
    """Make a task of what is done beside the pass; asked for while it still runs, it is left out.

    So all of them together never hold more threads than there are of them, and those that a worker has more are left
    to the pass, whatever hangs.
    """

    def register(do: Callable[[], None]) -> Any:
        free = threading.Lock()

        @wraps(do)
        def once() -> None:
            if not free.acquire(blocking=False):
                log.info("%s is left out: it still runs", name)
                return
            try:
                clock.follow()
                do()
            finally:
                free.release()

        return shared_task(name=name, ignore_result=True)(once)

    return register


@_chore("jobs.adopt_brought")
def adopt_brought() -> None:
    """Make tasks of MPIJobs that people brought, and follow them."""
    brought.adopt()


@_chore("jobs.look_ahead")
def look_ahead() -> None:
    """Estimate when waiting tasks start, unless the last time was just now."""
    forecasts.run()


@_chore("jobs.remove_old_logs")
def remove_old_logs() -> None:
    """Remove the logs of tasks that ended longer ago than logs are kept."""
    if settings.LOG_DAYS:
        old_logs.remove(clock.now() - timedelta(days=settings.LOG_DAYS))


@_chore("jobs.remove_old_card_metrics")
def remove_old_card_metrics() -> None:
    """Remove what was measured on cards longer ago than that is kept."""
    card_metrics.remove_old(clock.now())


@_chore("jobs.remove_old_host_events")
def remove_old_host_events() -> None:
    """Remove what happened to hosts longer ago than that is kept."""
    host_events.remove_old(clock.now())


@_chore("jobs.remove_old_pass_minutes")
def remove_old_pass_minutes() -> None:
    """Remove what is known of passes for longer than it is kept."""
    pass_log.remove_old(clock.now())


@_chore("jobs.remove_old_what_ifs")
def remove_old_what_ifs() -> None:
    """Remove questions what would have been, asked longer ago than they are kept."""
    what_ifs.remove_old(clock.now())


@_chore("jobs.answer_what_ifs")
def answer_what_ifs() -> None:
    """Answer the questions what would have been, one after the other."""
    while what_ifs.run_next() is not None:
        pass


@_chore("jobs.collect_uploads")
def collect_uploads() -> None:
    """Remove uploaded code that nobody needs any more."""
    uploads.collect(clock.now())


@_chore("jobs.sum_up_use")
def sum_up_use() -> None:
    """Sum up what businesses used, by day."""
    card_hours.keep(clock.now())


@_chore("jobs.forget_answers")
def forget_answers() -> None:
    """Remove the answers that were kept long enough for whoever repeats a request."""
    kept_answers.forget_old(clock.now())


@_chore("jobs.sample_free_cards")
def sample_free_cards() -> None:
    """Keep how many cards are free in this minute."""
    samples.take(clock.now(), use.held_cards())


@_chore("jobs.note_stuck_instances")
def note_stuck_instances() -> None:
    """Tell of what should have ended long ago."""
    stuck.note(clock.now())


@_chore("jobs.send_host_mails")
def send_host_mails() -> None:
    """Send operators the mails about hosts that are due."""
    host_mails.send_due()
