"""Filters of the list of tasks that somebody named, to come back to them."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from cluster import characters
from cluster.kept_names import KeepsNames


class SavedView(KeepsNames):
    """A name for what stands behind the question mark of the list's address."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views", db_index=False
    )
    name = models.CharField(_("name"), max_length=40, validators=[characters.one_line])
    query = models.CharField(max_length=2000)

    class Meta:
        ordering = ["name"]
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="saved_view_name_once")]

    def __str__(self) -> str:
        return self.name
