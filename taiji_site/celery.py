"""Celery's application: the beat and the worker that run the passes."""

import os
from typing import Any

from celery import Celery, bootsteps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taiji_site.settings")


class Pacemaker(bootsteps.StartStopStep):
    """Lets a worker make passes by itself while no broker or no beat asks for any."""

    def create(self, worker: Any) -> Any:
        """Make what is started and stopped with the worker; Django is set up by then."""
        from jobs.engine.pacemaker import Pacemaker as Thread

        return Thread()


app = Celery("taiji")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(Pacemaker)
