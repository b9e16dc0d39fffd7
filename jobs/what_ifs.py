"""A question what would have been: a change of quotas, policy or hosts, tried on the work of the last days."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from cluster import clock


class WhatIf(models.Model):
    """One question, and what came of it."""

    class State(models.TextChoices):
        """Where the answer stands."""

        WAITING = "waiting", pgettext_lazy("what-if", "waits")
        RUNNING = "running", pgettext_lazy("what-if", "is being replayed")
        DONE = "done", pgettext_lazy("what-if", "is answered")
        FAILED = "failed", pgettext_lazy("what-if", "has failed")
        CANCELED = "canceled", pgettext_lazy("what-if", "was called off")

    made_at = models.DateTimeField(_("time"), default=clock.now, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, verbose_name=_("user"), null=True, related_name="+"
    )
    days = models.PositiveSmallIntegerField(_("days"))
    change = models.JSONField()  # in the words of jobs/simulation/what_if.py
    base: Any = models.JSONField()  # what the change changes, as it was when it was asked

    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.WAITING)
    done = models.PositiveSmallIntegerField(default=0)  # percent
    beat_at = models.DateTimeField(null=True)  # when whoever works on it last said so
    tries = models.PositiveSmallIntegerField(default=0)  # how often it was begun
    ended_at = models.DateTimeField(null=True)
    fault = models.CharField(max_length=255, blank=True)
    result: Any = models.JSONField(null=True)

    applied_at = models.DateTimeField(null=True)
    applied_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    applied_why = models.CharField(max_length=255, blank=True)

    class Meta:
        verbose_name = _("what-if")
        verbose_name_plural = _("what-ifs")
        constraints = [
            # One at a time: a replay takes a core for itself.
            models.UniqueConstraint(fields=["state"], name="one_what_if_runs", condition=Q(state="running"))
        ]

    def __str__(self) -> str:
        return f"{self.pk}"

    def silent_s(self, now: datetime) -> float:
        """Return for how long nothing was heard of whoever replays it; 0 where nobody does."""
        if self.state != self.State.RUNNING or self.beat_at is None:
            return 0.0
        return (now - self.beat_at).total_seconds()

    @property
    def is_open(self) -> bool:
        """Say whether its answer is still to come."""
        return self.state in {self.State.WAITING, self.State.RUNNING}
