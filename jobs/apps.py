"""Django's record of this room."""

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """What users ask for, and what became of it."""

    name = "jobs"
