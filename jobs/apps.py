"""Django's record of this room."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class JobsConfig(AppConfig):
    """What users ask for, and what became of it."""

    name = "jobs"
    verbose_name = _("Tasks")
