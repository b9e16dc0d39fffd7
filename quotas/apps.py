"""Django's record of this room."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    """Who may use how much."""

    name = "quotas"
