"""Django's record of this room."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ClusterConfig(AppConfig):
    """What there is and what runs on it."""

    name = "cluster"
    verbose_name = _("Hosts and cards")
