"""Answers kept under the key that came with the request, so that repeating it gets the same answer and does nothing."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models

from cluster import rows

KEPT_FOR = timedelta(days=1)
REMOVED_AT_ONCE = 1000  # rows; a short transaction holds nobody up


class KeptAnswer(models.Model):
    """What was answered to the request of a user that had this key; without a status it is being worked on."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    # A keyed digest of the whole request: it tells two apart and shows none.
    asked = models.CharField(max_length=64)
    at = models.DateTimeField()
    until = models.DateTimeField(null=True)  # whoever works on it apart from this row has it for so long
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(blank=True)  # JSON, as it was sent

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="answer_once_per_key")]
        indexes = [models.Index(fields=["at"], name="answer_by_age")]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.key}"


def forget_old(now: datetime) -> int:
    """Remove the answers that are kept no longer; return how many."""
    removed = 0
    while True:
        old = KeptAnswer.objects.filter(at__lt=now - KEPT_FOR).order_by("at")
        keys = list(old.values_list("pk", flat=True)[:REMOVED_AT_ONCE])
        KeptAnswer.objects.filter(pk__in=rows.among(keys)).delete()
        removed += len(keys)
        if len(keys) < REMOVED_AT_ONCE:
            return removed
