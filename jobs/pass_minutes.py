"""What the scheduler did in each minute: a row, added to by every pass that made a plan."""

from django.db import models


class PassMinute(models.Model):
    """The passes of one minute that planned; what they did, and how long they took."""

    minute = models.IntegerField(primary_key=True)  # since the epoch
    passes = models.PositiveIntegerField()
    took_ms = models.FloatField()  # of all of them together …
    longest_ms = models.FloatField()  # … and of the one that took longest
    starts = models.PositiveIntegerField()
    evictions = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.minute}: {self.passes}"
