"""What passes did and how long they took, minute by minute: written by the pass, read by the scheduler's page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F, FloatField, Max, Sum, Value
from django.db.models.functions import Cast, Greatest

from jobs.pass_minutes import PassMinute

KEPT_FOR = timedelta(days=35)
MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What the passes of some minutes did."""

    at: datetime  # its beginning
    passes: int  # that planned
    mean_ms: float | None  # None: there was none
    longest_ms: float | None
    starts: int
    evictions: int


def note(now: float, took_ms: float, starts: int, evictions: int) -> None:
    """Add a pass that planned to its minute (seconds since the epoch); one statement, two for the first of a minute.

    It needs no lease: what a pass did it did, and one that was replaced meanwhile never comes here.
    """
    minute = int(now // MINUTE_S)
    known = PassMinute.objects.filter(minute=minute).update(
        passes=F("passes") + 1,
        took_ms=F("took_ms") + took_ms,
        longest_ms=Greatest(F("longest_ms"), Cast(Value(took_ms), FloatField())),
        starts=F("starts") + starts,
        evictions=F("evictions") + evictions,
    )
    if not known:
        PassMinute.objects.create(
            minute=minute,
            passes=1,
            took_ms=took_ms,
            longest_ms=took_ms,
            starts=starts,
            evictions=evictions,
        )


def remove_old(now: datetime) -> int:
    """Remove the minutes that are older than they are kept, and return how many those were."""
    before = int((now - KEPT_FOR).timestamp() // MINUTE_S)
    return PassMinute.objects.filter(minute__lt=before).delete()[0]


def spans(now: datetime, minutes: int, number: int) -> list[Span]:
    """Return the last `number` spans of so many minutes, up to the one of `now`, in order; one query.

    Spans begin at multiples of their length since the epoch, those without a pass are there too.
    """
    last = int(now.timestamp() // MINUTE_S) // minutes
    places = range(last - number + 1, last + 1)
    rows = (
        PassMinute.objects.filter(minute__gte=places.start * minutes)
        .annotate(place=F("minute") / minutes)
        .values("place")
        .annotate(Sum("passes"), Sum("took_ms"), Max("longest_ms"), Sum("starts"), Sum("evictions"))
        .order_by()
    )
    found = {row["place"]: dict(row) for row in rows}
    return list(_spans(places, minutes, found))


def _spans(places: range, minutes: int, found: Mapping[int, Mapping[str, Any]]) -> Iterator[Span]:
    for place in places:
        row = found.get(place, {})
        passes = int(row.get("passes__sum", 0))
        yield Span(
            at=datetime.fromtimestamp(place * minutes * MINUTE_S, UTC),
            passes=passes,
            mean_ms=row["took_ms__sum"] / passes if passes else None,
            longest_ms=row["longest_ms__max"] if passes else None,
            starts=int(row.get("starts__sum", 0)),
            evictions=int(row.get("evictions__sum", 0)),
        )
