"""Django's record of this room."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class QuotasConfig(AppConfig):
    """Who may use how much."""

    name = "quotas"
    verbose_name = _("Businesses and quotas")
