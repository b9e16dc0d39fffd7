"""One week of reservations: when each holds, and where they are more than there is or stand beside each other."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from quotas import windows
from quotas.models import Reservation

DAYS = 7
DAY_WIDTH = 100  # of the drawing
Place = tuple[int, int | None]  # type, region; None: all regions together


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """Seven days by the calendar of a zone; a day in which clocks change is longer or shorter than others."""

    monday: date
    zone: ZoneInfo
    edges: tuple[datetime, ...]  # the beginnings of its days, and of the one after them

    @classmethod
    def of(cls, day: date, zone: ZoneInfo) -> "Week":
        """Return the week of a day."""
        monday = day - timedelta(days=day.weekday())
        days = [monday + timedelta(days=number) for number in range(DAYS + 1)]
        edges = (datetime.combine(each, time(), tzinfo=zone).astimezone(UTC) for each in days)
        return cls(monday=monday, zone=zone, edges=tuple(edges))

    @property
    def since(self) -> datetime:
        """Return when it begins."""
        return self.edges[0]

    @property
    def until(self) -> datetime:
        """Return when it is over."""
        return self.edges[-1]

    def x(self, at: datetime) -> float:
        """Return where a moment is drawn: each day is as wide as the others, whatever its length."""
        if at <= self.since:
            return 0.0
        for number, (start, end) in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            if at < end:
                return round(DAY_WIDTH * (number + (at - start) / (end - start)), 2)
        return float(DAY_WIDTH * DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One time in which a reservation holds; cut to the week for the drawing only."""

    row: Reservation
    start: datetime
    end: datetime
    begins: bool  # within the week, or before it
    ends: bool
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which the same reservations hold."""

    start: datetime
    end: datetime
    cards: int
    there: int  # cards that there are
    holders: tuple[tuple[str, int], ...]  # (business, cards)
    x: float
    width: float

    @property
    def over(self) -> bool:
        """Say whether more is reserved than there is."""
        return self.cards > self.there

    @property
    def shared(self) -> bool:
        """Say whether several businesses hold reservations."""
        return len(self.holders) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One reservation in the week."""

    row: Reservation
    windows: list[Window]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The reservations of one type, in all regions or in one, and what they come to together."""

    gpu_type: str
    region: str  # blank: all of them
    there: int
    lanes: list[Lane]
    spans: list[Span]

    @property
    def conflicts(self) -> list[Span]:
        """Return the times in which more is reserved than there is, or several businesses hold reservations."""
        return [span for span in self.spans if span.over or span.shared]


def windows_of(rows: Iterable[Reservation], week: Week) -> list[Window]:
    """Return all windows that touch the week, in order."""
    found = [
        _window(row, start, end, week)
        for row in rows
        for start, end in windows.windows(row.rule, week.since, week.until)
    ]
    return sorted(found, key=lambda window: (window.start, window.row.pk))


def _window(row: Reservation, start: datetime, end: datetime, week: Week) -> Window:
    x = week.x(start)
    return Window(
        row=row,
        start=start,
        end=end,
        begins=start >= week.since,
        ends=end <= week.until,
        x=x,
        width=round(week.x(end) - x, 2),
    )


def grounds(rows: Sequence[Reservation], there: Mapping[Place, int], week: Week) -> list[Ground]:
    """Return the types, in all regions and in those that are named, with what is reserved of them.

    What is reserved wherever the cards are counts with what is reserved in a region, against all cards of the type;
    in a region only what is reserved there counts.
    """
    found = windows_of(rows, week)
    by_place: dict[Place, list[Window]] = defaultdict(list)
    for window in found:
        row = window.row
        by_place[row.gpu_type_id, None].append(window)
        if row.region_id is not None:
            by_place[row.gpu_type_id, row.region_id].append(window)
    return sorted(
        (_ground(place, those, there.get(place, 0), week) for place, those in by_place.items()),
        key=lambda ground: (ground.gpu_type, ground.region),
    )


def _ground(place: Place, found: list[Window], there: int, week: Week) -> Ground:
    lanes: dict[int, list[Window]] = defaultdict(list)
    for window in found:
        lanes[window.row.pk].append(window)
    first = found[0].row
    return Ground(
        gpu_type=first.gpu_type.name,
        region=str(first.region) if place[1] is not None else "",
        there=there,
        lanes=[Lane(row=those[0].row, windows=those) for those in lanes.values()],
        spans=list(_spans(found, there, week)),
    )


def _spans(found: Sequence[Window], there: int, week: Week) -> Iterator[Span]:
    """Give the times of the week in which anything is reserved, cut wherever that changes."""
    cuts = sorted({max(week.since, w.start) for w in found} | {min(week.until, w.end) for w in found})
    for start, end in itertools.pairwise(cuts):
        holders: dict[str, int] = defaultdict(int)
        for window in found:
            if window.start < end and window.end > start:
                holders[window.row.business.flag] += window.row.cards
        if holders:
            x = week.x(start)
            yield Span(
                start=start,
                end=end,
                cards=sum(holders.values()),
                there=there,
                holders=tuple(sorted(holders.items())),
                x=x,
                width=round(week.x(end) - x, 2),
            )
