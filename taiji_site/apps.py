"""Django's record of this room."""

from django.apps import AppConfig
from django.contrib.admin import apps as admin


class SiteConfig(AppConfig):
    """The wiring, with the checks of its settings."""

    name = "taiji_site"

    def ready(self) -> None:
        """Have Django check the settings."""
        from taiji_site import checks  # noqa: F401  # registers them


class OperationsConfig(admin.AdminConfig):
    """Django's admin, entered by the roles of the platform."""

    default = False  # the room's own config is the one above
    default_site = "taiji_site.operations.Operations"
