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
        """Have the database mark changes and keep an index of names, from each migration on."""
        post_migrate.connect(_watch, sender=self)


def _watch(**_kwargs: Any) -> None:
    # Models are there only once all rooms are ready.
    from jobs import name_search
    from jobs.engine import changes

    changes.watch()
    name_search.prepare()
