"""How long ago the scheduler last looked, and where to look when that is too long ago."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from django.conf import settings
from django.db.models import Subquery
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _t
from django.utils.translation import ngettext

from cluster import clock
from cluster.models import FreeCardSample
from jobs.models import PassLease, Task
from jobs.states import State

LEAST_S, PERIODS = 60.0, 10  # late is who did not look for this long, and for so many periods of the beat
CLOCK_OFF_S = 5.0  # a server's clock that differs by more from the database's is told of
COUNTED_S = 300.0  # the beat has free cards counted each minute: none for so long means that it, or the broker, is away

Cause = Literal["", "silent", "failing", "running"]
# Passes are made without the beat and the broker too, by whom nobody asks: pacemaker.py. All else is not.
BEAT_LATE = _t(
    "Passes are made, but nothing else that is due by the minute or the hour: estimates, the course of free cards, "
    "clean-ups. Operators: see whether the beat and Valkey run, and look at the log of the worker."
)
ADVICE = {
    "silent": _t(
        "No pass begins. Operators: see whether the worker, the beat and Valkey run, and look at their logs."
    ),
    "failing": _t("Passes begin and break off. Operators: look at the log of the worker."),
    "running": _t(
        "A pass goes on for this long. Operators: look at the log of the worker and the load of the database."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """When the scheduler last looked, and what is known of why it does not."""

    last_at: datetime | None  # when the last pass ended that was not broken off; None: none ever did
    age_s: float | None  # how long ago
    took_ms: float | None  # how long it took
    late: bool
    cause: Cause = ""  # of being late
    beat_late: bool = False  # what the beat asks for by the minute is not done
    # By how much a server's clock is ahead of the database's: who is asked, or who made the pass; negative: behind.
    clock_off_s: float = 0.0

    @property
    def message(self) -> str:
        """Return how long ago it looked, in the caller's language."""
        if self.age_s is None:
            return _("The scheduler has never looked yet.")
        if self.age_s < LEAST_S:
            seconds = round(self.age_s)
            said = ngettext(
                "The scheduler last looked %(n)d second ago.",
                "The scheduler last looked %(n)d seconds ago.",
                seconds,
            )
            return said % {"n": seconds}
        minutes = int(self.age_s // 60)
        if minutes < 120:
            said = ngettext(
                "The scheduler last looked %(n)d minute ago.",
                "The scheduler last looked %(n)d minutes ago.",
                minutes,
            )
            return said % {"n": minutes}
        return _("The scheduler last looked %(n)d hours ago.") % {"n": minutes // 60}

    @property
    def advice(self) -> str:
        """Return where an operator should look; blank where all is well."""
        if self.cause:
            return str(ADVICE[self.cause])
        if self.beat_late:
            return str(BEAT_LATE)
        return self.clock_warning

    @property
    def clock_warning(self) -> str:
        """Return what operators should know of a server's clock; blank where it is about right."""
        if abs(self.clock_off_s) <= CLOCK_OFF_S:
            return ""
        said = _(
            "The clock of a server differs from the database's by %(seconds)d s. What is decided goes by the "
            "database's, but pages and logs do not. Operators: let all servers set their clocks (NTP)."
        )
        return said % {"seconds": abs(round(self.clock_off_s))}


def late_after_s() -> float:
    """Return after how many seconds without a pass something is wrong."""
    return max(LEAST_S, PERIODS * float(settings.PASS_PERIOD_S))


def look() -> Pulse:
    """Return what the lease of the pass and the last count of free cards say; one query, two where no pass ever ended.

    The database's clock wrote its times, so that clock says how long ago they are, not the one of whoever asks.
    """
    counts = FreeCardSample.objects.order_by("-at").values("at")[:1]
    lease = PassLease.objects.filter(pk=1).annotate(now=Now(), counted_at=Subquery(counts)).first()
    now = lease.now if lease else clock.now()
    ended = lease.finished_at if lease else None
    age_s = max(0.0, (now - ended).total_seconds()) if ended else None
    late = age_s > late_after_s() if age_s is not None else _somebody_waits(now)
    return Pulse(
        last_at=ended,
        age_s=age_s,
        took_ms=lease.took_ms if lease and ended else None,
        late=late,
        cause=_cause(lease, now) if late else "",
        beat_late=_is_beat_late(lease.counted_at if lease else None, now),
        clock_off_s=_clock_off_s(lease, now),
    )


def _clock_off_s(lease: PassLease | None, now: datetime) -> float:
    """Return by how much the clock is ahead of the database's, here or where the pass was made, whichever is more."""
    mine = (datetime.now(UTC) - now).total_seconds()  # of this machine, not the one that servers share
    return max(mine, lease.clock_off_s if lease else 0.0, key=abs)


def _is_beat_late(counted_at: datetime | None, now: datetime) -> bool:
    """Say whether free cards were counted, but not for long; where there never was a card there is nothing to count."""
    return counted_at is not None and now - counted_at > timedelta(seconds=COUNTED_S)


def _somebody_waits(now: datetime) -> bool:
    """Say whether a task waits for so long that a pass should have seen it: a new installation is not late."""
    since = now - timedelta(seconds=late_after_s())
    return Task.objects.filter(state=State.QUEUED, queued_at__lt=since).exists()


def _cause(lease: PassLease | None, now: datetime) -> Cause:
    if lease is None:
        return "silent"
    if lease.holder and lease.expires_at > now:
        return "running"
    # Whoever breaks off ends his lease, and that of one who was killed runs out soon after.
    return "failing" if lease.expires_at > now - timedelta(seconds=late_after_s()) else "silent"
