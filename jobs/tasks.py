"""Celery's door: beat and hints end in one scheduling pass, each minute in a sample of free cards."""

from celery import shared_task
from django.utils import timezone

from cluster import samples
from jobs import use
from jobs.engine import passes


@shared_task(name="jobs.run_pass", ignore_result=True)
def run_pass() -> None:
    """Run a scheduling pass, unless another one is running for long."""
    passes.run()


@shared_task(name="jobs.sample_free_cards", ignore_result=True)
def sample_free_cards() -> None:
    """Keep how many cards are free in this minute."""
    samples.take(timezone.now(), use.held_cards())
