"""What users ask for (tasks), and what became of it (attempts, events, claims)."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from simple_history.models import HistoricalRecords

from cluster import characters, clock
from cluster.kept_names import KeepsNames
from cluster.models import GpuType, Host, Region
from jobs.kept_answers import KeptAnswer as KeptAnswer
from jobs.materials import Code, Dataset
from jobs.pass_minutes import PassMinute as PassMinute
from jobs.pass_rows import Change as Change
from jobs.pass_rows import Forecast as Forecast
from jobs.pass_rows import PassLease as PassLease
from jobs.pass_rows import PastUse as PastUse
from jobs.pass_rows import WaitingLine as WaitingLine
from jobs.saved_views import SavedView as SavedView
from jobs.states import ACTIVE, TERMINAL, WAITING, State
from jobs.what_ifs import WhatIf as WhatIf
from quotas import access
from quotas.models import Business

STATE_WORDS: dict[str, Promise] = {
    State.BLOCKED: _("blocked"),
    State.QUEUED: _("queued"),
    State.HELD: _("held"),
    State.STARTING: _("starting"),
    State.RUNNING: _("running"),
    State.EVICTING: _("evicting"),
    State.STOPPING: _("stopping"),
    State.KEEPING: _("place kept"),
    State.SUCCEEDED: _("succeeded"),
    State.FAILED: _("failed"),
    State.STOPPED: _("stopped"),
    State.EVICTED: _("evicted"),
}


class TaskClass(models.TextChoices):
    """What a task asks to be, and what its attempt is."""

    HIGH = "high", pgettext_lazy("class", "high")
    ELASTIC = "elastic", pgettext_lazy("class", "elastic")
    AUTO = "auto", pgettext_lazy("class", "auto")  # asked only: high where quota lasts, else elastic


class Priority(models.IntegerChoices):
    """Orders the tasks of one business among themselves."""

    LOW = 0, _("low")
    MEDIUM = 1, _("medium")
    HIGH = 2, _("high")


class TaskQuerySet(models.QuerySet["Task"]):
    """The sets of tasks that people and passes look at."""

    def visible_to(self, user: access.AnyUser) -> "TaskQuerySet":
        """Keep the tasks that `user` may see; the others do not exist for him."""
        if access.sees_all(user):
            return self
        return self.filter(business__in=access.businesses_of(user))

    def waiting(self) -> "TaskQuerySet":
        """Keep the tasks that hold no cards and have not ended."""
        return self.filter(state__in=WAITING)

    def active(self) -> "TaskQuerySet":
        """Keep the tasks that hold cards."""
        return self.filter(state__in=ACTIVE)


class Task(models.Model):
    """What a user submitted, and where it stands."""

    # Keys without an index of their own are the first of another index: each of them costs at every move.
    business = models.ForeignKey(
        Business, models.PROTECT, verbose_name=_("business"), related_name="tasks", db_index=False
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, verbose_name=_("user"), related_name="tasks", db_index=False
    )
    task_flag = models.CharField(_("name"), max_length=255)
    config = models.JSONField()  # the normalised document, without secrets
    secrets = models.TextField(blank=True)  # the document's secrets by path, in the vault
    origin = models.ForeignKey(
        "self", models.SET_NULL, verbose_name=_("copied from"), null=True, related_name="copies"
    )

    wanted_class = models.CharField(_("class"), max_length=8, choices=TaskClass.choices)
    host_num = models.PositiveIntegerField(_("hosts"))
    host_gpu_num = models.PositiveIntegerField(_("cards on each host"))
    gpu_types = models.JSONField()  # ids of the acceptable types, in the order to try
    region = models.ForeignKey(Region, models.PROTECT, verbose_name=_("region"), null=True, related_name="+")
    code = models.ForeignKey(Code, models.PROTECT, null=True, related_name="tasks", db_index=False)
    dataset = models.ForeignKey(Dataset, models.PROTECT, null=True, related_name="tasks", db_index=False)
    needs = models.CharField(max_length=32, default="process")  # what a host has to offer: jobs/needs.py
    priority = models.SmallIntegerField(_("priority"), choices=Priority.choices, default=Priority.MEDIUM)
    pull_up = models.BooleanField(default=False)
    keep_alive = models.BooleanField(default=False)
    retry_limit = models.PositiveIntegerField(default=0)
    time_limit_s = models.PositiveIntegerField(null=True)
    checkpoint_interval_s = models.PositiveIntegerField(null=True)

    state = models.CharField(
        _("state"),
        max_length=16,
        choices=[(str(state), word) for state, word in STATE_WORDS.items()],
        default=State.QUEUED,
    )
    submitted_at = models.DateTimeField(_("submitted"), default=clock.now, editable=False)
    queued_at = models.DateTimeField(
        _("waits since"), default=clock.now, editable=False
    )  # when it last began to wait
    ready_at = models.DateTimeField(_("not before"), null=True)  # the submitter's wish, or a backoff
    ended_at = models.DateTimeField(_("ended"), null=True)
    avoid_hosts = models.JSONField(default=list)  # ids of hosts where it failed at once
    # Of scheduling/reasons.py, or of an end.
    reason_code = models.CharField(_("reason"), max_length=32, blank=True)
    reason_args = models.JSONField(default=dict)

    idempotency_key = models.CharField(max_length=255, null=True)  # null where none was given

    objects: ClassVar[TaskQuerySet] = TaskQuerySet.as_manager()  # type: ignore[assignment]  # typed by its methods

    class Meta:
        ordering = ["-id"]
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        constraints = [
            models.UniqueConstraint(
                fields=["user", "idempotency_key"],
                name="task_once_per_key",
                condition=Q(idempotency_key__isnull=False),
            ),
        ]
        indexes = [
            # The pass reads only what has not ended; lists go newest first within an owner.
            models.Index(
                fields=["id"],
                name="task_open",
                condition=~Q(state__in=sorted(state.value for state in TERMINAL)),
            ),
            models.Index(fields=["business", "-id"], name="task_by_business"),
            models.Index(fields=["user", "-id"], name="task_by_user"),
            models.Index(fields=["state", "-id"], name="task_by_state"),
            # Lists in other orders: few tasks wait, and a task ends once.
            models.Index(
                fields=["queued_at", "id"],
                name="task_by_wait",
                condition=Q(state__in=sorted(state.value for state in WAITING)),
            ),
            models.Index(
                fields=["-ended_at", "-id"], name="task_by_end", condition=Q(ended_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pk} {self.task_flag}"

    @property
    def is_over(self) -> bool:
        """Say whether the task has ended for good."""
        return self.state in TERMINAL


class Attempt(models.Model):
    """One run of a task: the cards it had, and how it ended."""

    class Outcome(models.TextChoices):
        """How an attempt ended."""

        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        STOPPED = "stopped", _("stopped")
        EVICTED = "evicted", _("evicted")
        LOST = "lost", _("lost")

    task = models.ForeignKey(Task, models.PROTECT, verbose_name=_("task"), related_name="attempts")
    number = models.PositiveIntegerField(_("number"))  # 1 for the first
    task_class = models.CharField(_("class"), max_length=8, choices=TaskClass.choices)  # high or elastic
    gpu_type = models.ForeignKey(GpuType, models.PROTECT, verbose_name=_("GPU type"), related_name="+")
    cards = models.PositiveIntegerField(_("cards"))  # over all hosts
    created_at = models.DateTimeField(_("cards given"))  # when its cards were given to it
    running_at = models.DateTimeField(_("all ran"), null=True)  # when every instance ran
    ended_at = models.DateTimeField(_("ended"), null=True)  # when its cards were free again
    keep_until = models.DateTimeField(_("place kept until"), null=True)  # its place is kept until then

    ending = models.CharField(_("told to end as"), max_length=16, choices=Outcome.choices, blank=True)
    # As stop, time_limit, exit_code, …
    ending_code = models.CharField(_("why it was told"), max_length=32, blank=True)
    ending_at = models.DateTimeField(_("told to end"), null=True)
    outcome = models.CharField(_("outcome"), max_length=16, choices=Outcome.choices, blank=True)
    outcome_code = models.CharField(_("why it ended"), max_length=32, blank=True)
    outcome_args = models.JSONField(default=dict)
    evicted_for = models.ForeignKey(
        Task, models.SET_NULL, verbose_name=_("evicted for"), null=True, related_name="+"
    )
    evict_rule = models.CharField(_("rule"), max_length=32, blank=True)

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        constraints = [
            models.UniqueConstraint(fields=["task", "number"], name="attempt_number_once"),
            models.UniqueConstraint(
                fields=["task"], name="one_open_attempt", condition=Q(ended_at__isnull=True)
            ),
        ]
        indexes = [
            # The pass counts the evictions of the last hour.
            models.Index(fields=["ended_at"], name="attempt_evicted", condition=Q(outcome="evicted")),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}#{self.number}"


class TaskEvent(models.Model):
    """Something that happened to a task; rows are only ever added."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="events", db_index=False)
    attempt = models.ForeignKey(Attempt, models.CASCADE, null=True, related_name="events")
    at = models.DateTimeField()
    old_state = models.CharField(max_length=16, blank=True)
    new_state = models.CharField(max_length=16, blank=True)  # blank: not a move
    code = models.CharField(max_length=32)
    args = models.JSONField(default=dict)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")

    class Meta:
        indexes = [models.Index(fields=["task", "id"], name="event_by_task")]

    def __str__(self) -> str:
        return f"{self.task_id}: {self.code}"


class Claim(models.Model):
    """The hosts that a high task waits for while its victims leave: those cards are held for it."""

    task = models.OneToOneField(Task, models.CASCADE, related_name="claim")
    gpu_type = models.ForeignKey(GpuType, models.PROTECT, related_name="+")
    hosts = models.JSONField()  # host id → cards held there
    task_class = models.CharField(max_length=8, choices=TaskClass.choices, default=TaskClass.HIGH)
    made_at = models.DateTimeField()
    last_term_at = models.DateTimeField(null=True)  # when the last victim was told to leave

    def __str__(self) -> str:
        return f"claim of {self.task_id}"


class Strike(models.Model):
    """An attempt that failed at once on a host, which speaks against it; see engine/quarantine.py."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="+")
    task = models.ForeignKey(Task, models.CASCADE, related_name="+", db_index=False)
    work = models.CharField(max_length=64)  # the same for tasks of one user that run the same
    at = models.DateTimeField()
    sure = models.BooleanField()  # the host itself said that it could not start it
    lasted_s = models.FloatField()
    proven = models.BooleanField(default=False)  # the same ran well on another host since

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "host", "at"], name="strike_once")]

    def __str__(self) -> str:
        return f"{self.task_id} on {self.host_id}"


class Policy(models.Model):
    """The scheduler's policy: one row of the keys that differ from their defaults."""

    values = models.JSONField(default=dict)
    history = HistoricalRecords()

    class Meta:
        verbose_name = _("policy")
        verbose_name_plural = _("policy")
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="one_policy")]

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


class TemplateQuerySet(models.QuerySet["Template"]):
    """The templates that people start from."""

    def visible_to(self, user: access.AnyUser) -> "TemplateQuerySet":
        """Keep those for all, those of the businesses of `user`, and his own."""
        of_his_businesses = Q(business__in=access.businesses_seen_by(user))
        of_nobody_else = Q(user__isnull=True) | Q(user=user.pk)
        return self.filter(of_his_businesses | Q(business__isnull=True) & of_nobody_else)

    def changeable_by(self, user: access.AnyUser) -> "TemplateQuerySet":
        """Keep those that `user` made, or leads the business of; operators change any that they see."""
        if access.is_operator(user):
            return self.visible_to(user)
        led = Q(business__in=access.businesses_led_by(user))
        return self.visible_to(user).filter(Q(user=user.pk) | led)


def leave_with_maker(collector: Any, field: Any, templates: TemplateQuerySet, using: str) -> None:
    """Remove templates that were for their maker alone, so that none is ever left to all; a business keeps its own."""
    models.CASCADE(collector, field, templates.filter(business__isnull=True), using)
    models.SET_NULL(collector, field, templates.filter(business__isnull=False), using)


class Template(KeepsNames):
    """A config document offered to start from."""

    name = models.CharField(_("name"), max_length=128, validators=[characters.one_line])
    # Neither: for all. A business: for its members. Only a user: for nobody else.
    business = models.ForeignKey(Business, models.CASCADE, verbose_name=_("business"), null=True, blank=True)
    # Who made it; of a business whose maker is gone: nobody.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        leave_with_maker,
        verbose_name=_("user"),
        null=True,
        blank=True,
        related_name="templates",
    )
    description = models.CharField(
        _("description"), max_length=255, blank=True, validators=[characters.one_line]
    )
    config = models.JSONField(_("config"))

    objects: ClassVar[TemplateQuerySet] = TemplateQuerySet.as_manager()  # type: ignore[assignment]  # typed by its methods

    class Meta:
        ordering = ["name"]
        verbose_name = _("template")
        verbose_name_plural = _("templates")

    def __str__(self) -> str:
        return self.name
