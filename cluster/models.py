"""What there is (regions, hosts, cards) and what runs on it (instances, leases)."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from cluster import characters, clock, host_states
from cluster.brought_jobs import BroughtJob as BroughtJob
from cluster.brought_jobs import BroughtNews as BroughtNews
from cluster.kept_names import KeepsNames


class Region(KeepsNames):
    """A place where hosts stand."""

    name = models.CharField(_("name"), max_length=64, unique=True, validators=[characters.one_line])

    class Meta:
        ordering = ["name"]
        verbose_name = _("region")
        verbose_name_plural = _("regions")

    def __str__(self) -> str:
        return self.name


class GpuTypeQuerySet(models.QuerySet["GpuType"]):
    """Look-ups of GPU types."""

    def by_name(self) -> dict[str, "GpuType"]:
        """Return every type under its case-folded name and under each of its earlier names."""
        types = list(self)
        found = {alias.casefold(): gpu_type for gpu_type in types for alias in gpu_type.aliases}
        return found | {gpu_type.name.casefold(): gpu_type for gpu_type in types}


class GpuType(KeepsNames):
    """A kind of card; renamed types keep answering to their earlier names."""

    name = models.CharField(_("name"), max_length=64, unique=True, validators=[characters.one_line])
    aliases = models.JSONField(
        _("earlier names"), default=list, blank=True, help_text=_("A list of names that mean this type too.")
    )
    history = HistoricalRecords()

    objects: ClassVar[GpuTypeQuerySet] = GpuTypeQuerySet.as_manager()  # type: ignore[assignment]  # typed by its methods

    class Meta:
        ordering = ["name"]
        verbose_name = _("GPU type")
        verbose_name_plural = _("GPU types")

    def __str__(self) -> str:
        return self.name


class Host(KeepsNames):
    """A machine with cards, and what operators and its agent last said of it."""

    class State(models.TextChoices):
        """The words of host_states.py; whether a host is lost is observed apart, in `lost_since`."""

        READY = host_states.State.READY.value, _("ready")
        CORDONED = host_states.State.CORDONED.value, _("cordoned")
        DRAINING = host_states.State.DRAINING.value, _("draining")
        QUARANTINED = host_states.State.QUARANTINED.value, _("quarantined")
        REMOVED = host_states.State.REMOVED.value, _("removed")

    name = models.CharField(_("name"), max_length=128, unique=True, validators=[characters.one_line])
    region = models.ForeignKey(Region, models.PROTECT, verbose_name=_("region"), related_name="hosts")
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.READY)
    state_reason = models.CharField(_("reason"), max_length=255, blank=True)  # in an operator's words …
    state_args = models.JSONField(null=True, editable=False)  # … or in the platform's: host_events.py
    state_changed_at = models.DateTimeField(_("state since"), default=clock.now, editable=False)
    lost_since = models.DateTimeField(_("lost since"), null=True, blank=True, editable=False)

    address = models.CharField(_("address"), max_length=255, blank=True, editable=False)
    offers = models.JSONField(_("kinds of instance it can run"), default=list, editable=False)
    token_hash = models.CharField(max_length=64, blank=True, editable=False, db_index=True)
    last_seen_at = models.DateTimeField(_("last seen"), null=True, editable=False)
    clock_offset_s = models.FloatField(_("clock offset (s)"), default=0.0, editable=False)
    agent_version = models.CharField(_("agent version"), max_length=32, blank=True, editable=False)
    agent_protocol = models.PositiveIntegerField(null=True, editable=False)  # null: nothing was said yet
    trouble = models.CharField(_("what is wrong with it"), max_length=255, blank=True, editable=False)
    calls = models.JSONField(null=True, editable=False)  # those that fail; null: all is well: host_calls.py
    cleared_faults = models.JSONField(default=list, editable=False)  # of its cards: card_faults.py
    agent_boot = models.CharField(max_length=36, blank=True, editable=False)
    agent_seq = models.BigIntegerField(default=0, editable=False)  # a report not newer than this is late
    # Where the agent is, so that no other speaks for the host: fencing.py.
    machine = models.CharField(max_length=64, blank=True, db_default="", editable=False)
    seat = models.CharField(max_length=64, blank=True, db_default="", editable=False)
    # The node of the region's Kubernetes cluster that it is; blank: an agent speaks for it.
    node = models.CharField(_("node"), max_length=253, blank=True, db_default="", editable=False)

    class Meta:
        ordering = ["name"]
        verbose_name = _("host")
        verbose_name_plural = _("hosts")
        constraints = [
            models.UniqueConstraint(fields=["region", "node"], name="node_once", condition=~Q(node="")),
        ]

    def __str__(self) -> str:
        return self.name


class HostEvent(models.Model):
    """Something that happened to a host; rows are added, and removed when they are old, but never changed."""

    host = models.ForeignKey(
        Host, models.CASCADE, verbose_name=_("host"), related_name="events", db_index=False
    )
    at = models.DateTimeField(_("time"))
    old_state = models.CharField(max_length=16, blank=True)
    new_state = models.CharField(max_length=16, blank=True)  # blank: not a move
    code = models.CharField(max_length=32)  # of host_events.py
    args = models.JSONField(default=dict)
    reason = models.CharField(_("reason"), max_length=255, blank=True)  # in the words of who did it
    actor = models.ForeignKey(  # null: the platform, or the host's agent
        settings.AUTH_USER_MODEL, models.SET_NULL, verbose_name=_("who"), null=True, related_name="+"
    )

    class Meta:
        verbose_name = _("host event")
        verbose_name_plural = _("host events")
        indexes = [
            models.Index(fields=["host", "id"], name="host_event_by_host"),  # the last ones, on its page
            models.Index(fields=["host", "code", "at"], name="host_event_by_code"),  # noted lately already?
        ]

    def __str__(self) -> str:
        return f"{self.host_id}: {self.code}"


class HostMail(models.Model):
    """A mail to operators about a host that is still to be sent; host_mails.py."""

    event = models.OneToOneField(HostEvent, models.CASCADE, related_name="mail")
    next_at = models.DateTimeField()  # when whoever comes may send it
    tries = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.event_id}: {self.tries}"


class Card(models.Model):
    """What one process sees as one GPU."""

    class State(models.TextChoices):
        """What the agent says of the card."""

        OK = "ok", _("ok")
        BROKEN = "broken", _("broken")
        EXTERNAL = "external", _("used from outside")
        MISSING = "missing", _("missing")  # the host no longer reports it

    host = models.ForeignKey(Host, models.PROTECT, verbose_name=_("host"), related_name="cards")
    index = models.PositiveSmallIntegerField(_("index"))
    uuid = models.CharField("UUID", max_length=96, blank=True)
    gpu_type = models.ForeignKey(GpuType, models.PROTECT, verbose_name=_("GPU type"), related_name="cards")
    memory_mib = models.PositiveIntegerField(_("memory (MiB)"), default=0)
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.OK)
    state_reason = models.CharField(_("reason"), max_length=255, blank=True)
    fault = models.CharField(
        max_length=32, blank=True, db_default="", editable=False
    )  # one that can be cleared

    class Meta:
        ordering = ["host", "index"]
        verbose_name = _("card")
        verbose_name_plural = _("cards")
        constraints = [models.UniqueConstraint(fields=["host", "index"], name="card_once_per_host")]

    def __str__(self) -> str:
        return f"{self.host}: {self.index}"


class Instance(models.Model):
    """One spec on one host: what should be (`wanted`) and what is (`phase`)."""

    class Phase(models.TextChoices):
        """What the host last said; `gone` is final and means no process of it is left."""

        PENDING = "pending", _("pending")  # the host has not said it took it
        STARTING = "starting", _("starting")
        READY = "ready", _("ready, waits for the others")  # a gang's members start their command together
        RUNNING = "running", _("running")
        ENDING = "ending", _("ending")  # exit command, TERM, KILL
        GONE = "gone", _("gone")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    host = models.ForeignKey(Host, models.PROTECT, related_name="instances")
    gang = models.BigIntegerField()  # the caller's number of what starts and ends together
    rank = models.PositiveIntegerField(default=0)
    label = models.CharField(max_length=255)  # for people
    spec = models.JSONField()  # what to run, without secrets; see cluster/agent/protocol.py
    secrets = models.TextField(blank=True)  # environment of the process that nobody may read, in the vault
    wanted = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    stop_asked_at = models.DateTimeField(null=True)  # when `wanted` became false

    phase = models.CharField(max_length=16, choices=Phase.choices, default=Phase.PENDING)
    running_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    exit_signal = models.IntegerField(null=True)
    ended_by_itself = models.BooleanField(null=True)  # false: it was being stopped when it ended
    detail = models.CharField(max_length=512, blank=True)  # why it did not start, in one sentence
    cause = models.CharField(
        max_length=16, blank=True
    )  # what the host says it was: a word of protocol.CAUSES
    commit = models.CharField(max_length=64, blank=True, db_default="")  # of the code that it runs, from git
    log_bytes = models.BigIntegerField(default=0)
    log_removed_at = models.DateTimeField(null=True)  # its log was old (cluster/old_logs.py)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["gang", "rank"], name="instance_rank_once"),
        ]
        indexes = [
            # What a host should run, and what the pass has to look at: never the long tail of ended ones.
            models.Index(fields=["host"], name="instance_live", condition=~Q(phase="gone")),
        ]

    def __str__(self) -> str:
        return self.label


class CardLease(models.Model):
    """One card given to one instance, until `released_at`."""

    card = models.ForeignKey(Card, models.PROTECT, related_name="leases")
    instance = models.ForeignKey(Instance, models.PROTECT, related_name="leases")
    # Of the instance: a pass reads all leases, and must not look them up among all instances there ever were.
    gang = models.BigIntegerField()
    leased_at = models.DateTimeField(default=clock.now, editable=False)
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["card"], name="card_leased_once", condition=Q(released_at__isnull=True)
            ),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(released_at__gte=F("leased_at")),
                name="lease_ends_after",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.card_id} → {self.instance_id}"


class FreeCardSample(models.Model):
    """How many cards of a type were free in a region at the start of a minute."""

    at = models.DateTimeField()
    region = models.ForeignKey(Region, models.CASCADE, related_name="+")
    gpu_type = models.ForeignKey(GpuType, models.CASCADE, related_name="+")
    free = models.PositiveIntegerField()
    largest_block = models.PositiveIntegerField()  # on one host

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["region", "gpu_type", "at"], name="free_cards_once_per_minute")
        ]
        indexes = [models.Index(fields=["at"], name="free_cards_by_age")]

    def __str__(self) -> str:
        return f"{self.at:%F %R}: {self.free}"


class CardMinute(models.Model):
    """What was measured on a card in one minute; null is what nobody can know."""

    pk = models.CompositePrimaryKey("card_id", "minute")
    card = models.ForeignKey(Card, models.CASCADE, related_name="+", db_index=False)
    minute = models.IntegerField()  # since the epoch: small, and numbers are grouped by dividing them
    use_mean = models.PositiveSmallIntegerField(null=True)  # percent
    use_max = models.PositiveSmallIntegerField(null=True)
    memory_mean_mib = models.PositiveIntegerField(null=True)
    memory_max_mib = models.PositiveIntegerField(null=True)
    temperature_max_c = models.PositiveSmallIntegerField(null=True)
    power_mean_w = models.PositiveSmallIntegerField(null=True)
    power_max_w = models.PositiveSmallIntegerField(null=True)
    ecc_corrected = models.PositiveIntegerField(null=True)  # since the driver was loaded or the card reset
    ecc_uncorrected = models.PositiveIntegerField(null=True)
    outside = models.PositiveSmallIntegerField(null=True)  # processes that are no task's
    xids = models.CharField(max_length=64, blank=True)  # numbers behind commas

    def __str__(self) -> str:
        return f"{self.card_id}: {self.minute}"
