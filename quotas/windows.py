"""PURE: when a reservation holds: its windows on the real time line, whatever clocks do in between."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

Kind = Literal["standing", "once", "weekly"]
FAR = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a reservation holds: always, from–to, or on one day of each week by the clocks of its zone.

    Weekly: from `from_time` of `weekday` (0: Monday) to the next `to_time`, so that 22:00–06:00 ends on the
    next day, and 02:00–02:00 is a whole day. `starts_at` and `ends_at` bound weekly and standing ones too, where given.
    """

    kind: Kind
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    weekday: int | None = None
    from_time: time | None = None
    to_time: time | None = None
    zone: str = "UTC"


Window = tuple[datetime, datetime]  # UTC, half open


def windows(rule: Rule, since: datetime, until: datetime) -> list[Window]:
    """Return the windows of `rule` that touch [since, until), in order; a window is never cut."""
    found = _weekly(rule, since, until) if rule.kind == "weekly" else iter([_whole(rule)])
    first, last = rule.starts_at or since - timedelta(days=36500), rule.ends_at or FAR
    bounded = ((max(start, first), min(end, last)) for start, end in found)
    return [(start, end) for start, end in bounded if start < end and start < until and end > since]


def overlap(one: Rule, other: Rule, since: datetime, until: datetime) -> Window | None:
    """Return the first window in which both hold, or None where there is none in [since, until)."""
    others = windows(other, since, until)
    for start, end in windows(one, since, until):
        for start_2, end_2 in others:
            if start < end_2 and start_2 < end:
                return max(start, start_2), min(end, end_2)
    return None


def _whole(rule: Rule) -> Window:
    return rule.starts_at or datetime(1970, 1, 1, tzinfo=UTC), rule.ends_at or FAR


def _weekly(rule: Rule, since: datetime, until: datetime) -> Iterator[Window]:
    """Go by the calendar of the zone: adding seven times 24 hours would drift by an hour twice a year."""
    assert rule.weekday is not None
    assert rule.from_time is not None
    assert rule.to_time is not None
    zone = ZoneInfo(rule.zone)
    day = since.astimezone(zone).date() - timedelta(days=8)
    day += timedelta(days=(rule.weekday - day.weekday()) % 7)
    end_day = timedelta(days=int(rule.to_time <= rule.from_time))
    while (start := _instant(day, rule.from_time, zone)) < until:
        yield start, _instant(day + end_day, rule.to_time, zone)
        day += timedelta(days=7)


def _instant(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """Return the instant of a local time; of one that comes twice, the first; of one that is skipped, the skip.

    So a later time of day is never an earlier instant, and windows that meet by the clocks meet in truth.
    """
    local = datetime.combine(day, clock.replace(fold=0), tzinfo=zone)
    found = local.astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
        return found
    # It is skipped: read by the new clocks it is an instant before the skip, by the old ones one after it.
    return _skip(local.replace(fold=1).astimezone(UTC), found, zone)


def _skip(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """Return the one instant in (low, high] at which the clocks of a zone change, to the second."""
    old = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == old:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)
