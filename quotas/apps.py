"""Django's record of this room."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class QuotasConfig(AppConfig):
    """Who may use how much."""

    name = "quotas"
    verbose_name = _("Businesses and quotas")

    def ready(self) -> None:
        """Have the database guard the audit, from each migration on."""
        post_migrate.connect(_protect, sender=self)


def _protect(**_kwargs: Any) -> None:
    from quotas import audit  # its models are there only once all rooms are ready

    audit.protect()
