"""Django's record of this room."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    """The wiring, with the checks of its settings."""

    name = "taiji_site"

    def ready(self) -> None:
        """Have Django check the settings."""
        from taiji_site import checks  # noqa: F401  # registers them
