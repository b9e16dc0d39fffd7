"""Who may use how much: businesses, their members, quotas, tokens, and the ledger of card-hours."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from cluster import characters, clock, hints
from cluster.kept_names import KeepsNames
from cluster.models import GpuType, Region
from quotas import presence, reservation_words, windows
from quotas.audit import AuditEntry as AuditEntry
from quotas.day_use import DayUse as DayUse
from quotas.day_use import DayUseKept as DayUseKept
from quotas.identities import GroupRule as GroupRule
from quotas.identities import ProviderIdentity as ProviderIdentity
from quotas.sessions import OwnedSession as OwnedSession
from quotas.throttle import LoginTries as LoginTries
from quotas.tokens import ApiToken as ApiToken

OVERLAPS_LOOKED_FOR = timedelta(days=400)  # a year of weekly windows, with both changes of clocks


class Business(KeepsNames):
    """A team with a budget of cards."""

    flag = models.CharField(
        "business_flag",
        max_length=64,
        unique=True,
        validators=[
            RegexValidator(r"^[^\s/\\\x00-\x1f.][^/\\\x00-\x1f]*$", _("No slashes, no leading dot.")),
            characters.one_line,
        ],
    )
    name = models.CharField(_("name"), max_length=128, blank=True, validators=[characters.one_line])
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Member", related_name="businesses")
    default_gpu_types = models.ManyToManyField(GpuType, through="DefaultGpuType")
    history = HistoricalRecords()

    class Meta:
        ordering = ["flag"]
        verbose_name = _("business")
        verbose_name_plural = _("businesses")

    def __str__(self) -> str:
        return self.flag

    def lock(self) -> None:
        """Let nobody else who asks for this change what belongs to it, until the transaction at hand is over."""
        # Rows that only name the business, such as tasks, are made meanwhile.
        Business.objects.select_for_update(no_key=True).filter(pk=self.pk).first()


class Member(models.Model):
    """A user of a business."""

    class Role(models.TextChoices):
        """What the user may do in the business."""

        MEMBER = "member", _("member")
        LEAD = "lead", _("lead")  # may also stop the tasks of others

    business = models.ForeignKey(Business, models.CASCADE, verbose_name=_("business"))
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"))
    role = models.CharField(_("role"), max_length=16, choices=Role.choices, default=Role.MEMBER)
    provider = models.BooleanField(_("from the identity provider"), default=False, editable=False)
    history = HistoricalRecords()

    class Meta:
        verbose_name = _("member")
        verbose_name_plural = _("members")
        constraints = [models.UniqueConstraint(fields=["business", "user"], name="member_once")]

    def __str__(self) -> str:
        return f"{self.user} – {self.business}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep it, and let what the user has open look anew."""
        super().save(*args, **kwargs)
        presence.rights_changed(self.user_id)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Remove it, and end at once what it opened."""
        with transaction.atomic():
            presence.leave_business(self.user_id, self.business_id)
            return super().delete(*args, **kwargs)


class PlatformRole(models.Model):
    """What a user is to the whole platform; superusers are operators without a row."""

    class Role(models.TextChoices):
        """What the user may do beyond his businesses."""

        OPERATOR = "operator", _("operator")  # everything, also in the admin
        AUDITOR = "auditor", _("auditor")  # looks at everything, changes nothing

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="platform_role"
    )
    role = models.CharField(_("role"), max_length=16, choices=Role.choices)
    provider = models.BooleanField(_("from the identity provider"), default=False, editable=False)

    class Meta:
        verbose_name = _("role of the platform")
        verbose_name_plural = _("roles of the platform")

    def __str__(self) -> str:
        return f"{self.user}: {self.get_role_display()}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep it, and let what the user has open look anew."""
        super().save(*args, **kwargs)
        presence.rights_changed(self.user_id)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Remove it, and end at once what it opened."""
        presence.rights_changed(self.user_id)
        return super().delete(*args, **kwargs)


class DefaultGpuType(models.Model):
    """A type that a task of the business may use where its config names none, in this order."""

    business = models.ForeignKey(Business, models.CASCADE)
    gpu_type = models.ForeignKey(GpuType, models.CASCADE, verbose_name=_("GPU type"))
    position = models.PositiveSmallIntegerField(_("position"), default=0)

    class Meta:
        ordering = ["position", "id"]
        verbose_name = _("default GPU type")
        verbose_name_plural = _("default GPU types")
        constraints = [models.UniqueConstraint(fields=["business", "gpu_type"], name="default_type_once")]

    def __str__(self) -> str:
        return f"{self.business}: {self.gpu_type}"


class Quota(models.Model):
    """How many cards of a type a business may hold, with high and (blank: no cap) elastic tasks."""

    business = models.ForeignKey(Business, models.PROTECT, verbose_name=_("business"), related_name="quotas")
    gpu_type = models.ForeignKey(GpuType, models.PROTECT, verbose_name=_("GPU type"), related_name="quotas")
    region = models.ForeignKey(
        Region,
        models.PROTECT,
        verbose_name=_("region"),
        null=True,
        blank=True,
        help_text=_("Blank: all regions together. A region's row caps within that one."),
    )
    cards = models.PositiveIntegerField(_("cards"), help_text=_("For high tasks."))
    elastic_cards = models.PositiveIntegerField(_("elastic cards at most"), null=True, blank=True)
    user_elastic_cards = models.PositiveIntegerField(
        _("elastic cards of one user at most"), null=True, blank=True
    )
    history = HistoricalRecords()

    class Meta:
        ordering = ["business", "gpu_type", "region"]
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")
        constraints = [
            models.UniqueConstraint(fields=["business", "gpu_type", "region"], name="quota_once_per_region"),
            models.UniqueConstraint(
                fields=["business", "gpu_type"], name="quota_once_overall", condition=Q(region__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.business}: {self.cards} × {self.gpu_type}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep it, and let pages that show what is left of it look anew."""
        super().save(*args, **kwargs)
        hints.publish("cards")

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Remove it, and let pages that show what is left of it look anew."""
        with transaction.atomic():
            hints.publish("cards")
            return super().delete(*args, **kwargs)


class Reservation(KeepsNames):
    """Cards of a type kept for a business: always, from–to, or in a window of each week."""

    class Kind(models.TextChoices):
        """When it holds."""

        STANDING = "standing", _("always")
        ONCE = "once", _("from–to")
        WEEKLY = "weekly", _("each week")

    class Weekday(models.IntegerChoices):
        """The day on which a weekly window begins."""

        MONDAY = 0, _("Monday")
        TUESDAY = 1, _("Tuesday")
        WEDNESDAY = 2, _("Wednesday")
        THURSDAY = 3, _("Thursday")
        FRIDAY = 4, _("Friday")
        SATURDAY = 5, _("Saturday")
        SUNDAY = 6, _("Sunday")

    business = models.ForeignKey(
        Business, models.PROTECT, verbose_name=_("business"), related_name="reservations"
    )
    gpu_type = models.ForeignKey(GpuType, models.PROTECT, verbose_name=_("GPU type"), related_name="+")
    region = models.ForeignKey(
        Region,
        models.PROTECT,
        verbose_name=_("region"),
        null=True,
        blank=True,
        help_text=_("Blank: wherever the cards are."),
        related_name="+",
    )
    cards = models.PositiveIntegerField(_("cards"))
    kind = models.CharField(_("when"), max_length=16, choices=Kind.choices, default=Kind.STANDING)
    starts_at = models.DateTimeField(_("from"), null=True, blank=True)
    ends_at = models.DateTimeField(_("to"), null=True, blank=True)
    weekday = models.SmallIntegerField(_("weekday"), choices=Weekday.choices, null=True, blank=True)
    from_time = models.TimeField(_("from (time of day)"), null=True, blank=True)
    to_time = models.TimeField(_("to (time of day)"), null=True, blank=True)
    time_zone = models.CharField(
        _("time zone"), max_length=64, default="UTC", help_text=_("Of weekly windows, such as Asia/Shanghai.")
    )
    note = models.CharField(_("note"), max_length=255, blank=True, validators=[characters.one_line])
    history = HistoricalRecords()

    class Meta:
        verbose_name = _("reservation")
        verbose_name_plural = _("reservations")

    def __str__(self) -> str:
        return f"{self.business}: {self.cards} × {self.gpu_type}"

    @property
    def rule(self) -> windows.Rule:
        """Return when it holds."""
        return windows.Rule(
            kind=self.kind,  # type: ignore[arg-type]  # the words of Kind
            starts_at=self.starts_at,
            ends_at=self.ends_at,
            weekday=self.weekday,
            from_time=self.from_time,
            to_time=self.to_time,
            zone=self.time_zone,
        )

    @property
    def when(self) -> str:
        """Return when it holds, in words."""
        return reservation_words.when(self.rule, self.get_weekday_display() or "")

    def clean(self) -> None:
        """Refuse what can never hold, and what another reservation of the same cards holds already."""
        faults = dict(self.faults())
        if faults:
            raise ValidationError(faults)
        now = clock.now()
        others = Reservation.objects.filter(
            business=self.business_id, gpu_type=self.gpu_type_id, region=self.region_id
        )
        for other in others.exclude(pk=self.pk):
            both = windows.overlap(self.rule, other.rule, now, now + OVERLAPS_LOOKED_FOR)
            if both:
                at = date_format(timezone.localtime(max(both[0], now)), "Y-m-d H:i")
                words = {"pk": other.pk, "at": at}
                message = _("It overlaps with reservation %(pk)s of the same business and type at %(at)s.")
                raise ValidationError(message % words)

    def faults(self) -> Iterator[tuple[str, Promise]]:
        """Return why it could never hold, by field: whatever else is reserved."""
        if self.time_zone not in available_timezones():
            yield "time_zone", _("There is no such time zone; write one like Asia/Shanghai.")
        if self.cards == 0:
            yield "cards", _("Reserve one card at least.")
        if self.starts_at and self.ends_at and self.starts_at >= self.ends_at:
            yield "ends_at", _("It ends before it begins.")
        needed = {
            self.Kind.ONCE: ("starts_at", "ends_at"),
            self.Kind.WEEKLY: ("weekday", "from_time", "to_time"),
        }
        for name in needed.get(self.Kind(self.kind), ()):
            if getattr(self, name) is None:
                yield name, _("This is needed for such a reservation.")


class UsageRow(models.Model):
    """What one attempt used, written once when it ended; rows are never changed."""

    attempt = models.BigIntegerField(unique=True)
    task = models.BigIntegerField(db_index=True)
    business = models.ForeignKey(Business, models.PROTECT, related_name="usage", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    gpu_type = models.ForeignKey(GpuType, models.PROTECT, related_name="+")
    task_class = models.CharField(max_length=8)
    cards = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_index=True)
    seconds = models.FloatField()  # from the cards' giving to their return
    outcome = models.CharField(max_length=16)

    class Meta:
        verbose_name = _("usage row")
        verbose_name_plural = _("usage rows")
        indexes = [models.Index(fields=["business", "ended_at", "id"], name="usage_by_business")]

    def __str__(self) -> str:
        return f"attempt {self.attempt}: {self.cards} × {self.seconds:.0f} s"
