"""Card-seconds by day: usage rows summed up once, so that a page adds up few rows whatever the past holds."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class DayUse(models.Model):
    """What one user's attempts of one class used of one GPU type on one day, of attempts that ended."""

    # Keys without an index of their own are read through the business and the day.
    business = models.ForeignKey("quotas.Business", models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()
    gpu_type = models.ForeignKey("cluster.GpuType", models.PROTECT, related_name="+", db_index=False)
    task_class = models.CharField(max_length=8)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False)
    card_s = models.FloatField()

    class Meta:
        verbose_name = _("use on a day")
        verbose_name_plural = _("use by day")
        constraints = [
            models.UniqueConstraint(
                fields=["business", "day", "gpu_type", "task_class", "user"], name="day_use_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.day:%F}: {self.card_s:.0f} card-seconds"


class DayUseKept(models.Model):
    """How far the sums go: one row, moved on by compare-and-set."""

    through = models.DateTimeField()  # every usage row that ended until then is in the sums
    zone = models.CharField(max_length=64)  # whose days they are

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="one_day_use_kept")]

    def __str__(self) -> str:
        return f"until {self.through:%F %R}"
