"""Celery's application: the beat and the worker that run the passes."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "taiji_site.settings")

app = Celery("taiji")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
