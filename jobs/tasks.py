"""Celery's door: the beat and every hint end in one scheduling pass."""

from celery import shared_task

from jobs.engine import passes


@shared_task(name="jobs.run_pass", ignore_result=True)
def run_pass() -> None:
    """Run a scheduling pass, unless another one is running for long."""
    passes.run()
