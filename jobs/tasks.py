"""Celery's door: beat and hints end in one scheduling pass, each minute in a sample of free cards."""

from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from cluster import card_metrics, old_logs, samples, stuck
from jobs import uploads, use
from jobs.engine import forecasts, passes


@shared_task(name="jobs.run_pass", ignore_result=True)
def run_pass() -> None:
    """Run a scheduling pass, unless another one is running for long."""
    passes.run()


@shared_task(name="jobs.look_ahead", ignore_result=True)
def look_ahead() -> None:
    """Estimate when waiting tasks start, unless the last time was just now."""
    forecasts.run()


@shared_task(name="jobs.remove_old_logs", ignore_result=True)
def remove_old_logs() -> None:
    """Remove the logs of tasks that ended longer ago than logs are kept, and old measurements of cards."""
    if settings.LOG_DAYS:
        old_logs.remove(timezone.now() - timedelta(days=settings.LOG_DAYS))
    card_metrics.remove_old(timezone.now())


@shared_task(name="jobs.collect_uploads", ignore_result=True)
def collect_uploads() -> None:
    """Remove uploaded code that nobody needs any more."""
    uploads.collect(timezone.now())


@shared_task(name="jobs.sample_free_cards", ignore_result=True)
def sample_free_cards() -> None:
    """Keep how many cards are free in this minute, and tell of what should have ended long ago."""
    samples.take(timezone.now(), use.held_cards())
    stuck.note(timezone.now())
