"""Django's record of this room."""

from django.apps import AppConfig


class ClusterConfig(AppConfig):
    """What there is and what runs on it."""

    name = "cluster"
