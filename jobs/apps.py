"""Django's record of this room."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class JobsConfig(AppConfig):
    """What users ask for, and what became of it."""

    name = "jobs"
    verbose_name = _("Tasks")

    def ready(self) -> None:
        """Have the database mark changes, from each migration on."""
        post_migrate.connect(_watch, sender=self)


def _watch(**_kwargs: Any) -> None:
    from jobs.engine import changes  # models are there only once all rooms are ready

    changes.watch()
