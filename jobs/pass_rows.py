"""What the scheduler keeps for itself between two passes: its lease, marks of changes, sums, and the look ahead."""

from django.db import models
from django.db.models import Q


class PassLease(models.Model):
    """Who runs the pass: one row, taken by compare-and-set, with a number that grows at each taking."""

    holder = models.CharField(max_length=64, blank=True)
    fence = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)  # of the last pass that was not broken off
    took_ms = models.FloatField(default=0.0)
    # By how much the clock of the server that made it was ahead of the database's; negative: behind.
    clock_off_s = models.FloatField(default=0.0, db_default=0.0)
    due_at = models.DateTimeField(null=True)  # when to plan anew even if nothing changed; null: at once
    marks_taken = models.BigIntegerField(default=0)  # how often a pass took marks of changes away

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="one_pass_lease")]

    def __str__(self) -> str:
        return self.holder or "nobody"


class Forecast(models.Model):
    """When the waiting tasks were last looked at ahead, and when next: one row, taken by compare-and-set."""

    next_at = models.DateTimeField()
    newest_task = models.BigIntegerField(default=0)  # the highest id among the tasks that waited then
    made_at = models.DateTimeField(null=True)
    took_ms = models.FloatField(default=0.0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="one_forecast")]

    def __str__(self) -> str:
        return f"{self.made_at:%F %T}" if self.made_at else "never"


class WaitingLine(models.Model):
    """The waiting tasks of one line in the order of the pass, and when each starts: a row, written whole.

    The bytes are little-endian numbers without signs, one for each task: engine/forecasts.py reads them.
    """

    name = models.TextField(unique=True)  # class and GPU types
    made_at = models.DateTimeField()
    in_line = models.PositiveIntegerField()  # so many of them; those behind cannot start yet whatever is free
    tasks = models.BinaryField()  # ids, 8 bytes each
    starts = models.BinaryField()  # seconds after `made_at`, 4 bytes each
    bases_of = models.BinaryField()  # which of `bases`, 2 bytes each
    bases = models.JSONField()  # [code, arguments] of simulation/forecast.py

    def __str__(self) -> str:
        return self.name


class Change(models.Model):
    """A mark that something changed which a plan is made from; see engine/changes.py."""

    def __str__(self) -> str:
        return str(self.pk)


class PastUse(models.Model):
    """What elastic attempts that ended until `through` used: a sum of usage rows, kept so as to add up few."""

    through = models.DateTimeField()
    half_life_s = models.FloatField()
    sums = models.JSONField(default=list)  # [business id, user id, card-seconds decayed to `through`] of each

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="one_past_use")]

    def __str__(self) -> str:
        return f"until {self.through:%F %R}"
