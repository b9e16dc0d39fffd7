"""What was measured on cards, minute by minute: kept for a while, and given back as series to draw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Avg, F, Max

from cluster import rows
from cluster.models import Card, CardMinute
from cluster.prepared import Prepared
from cluster.reports import MinuteReport

POINTS = 500  # of one line at most
AHEAD = 2  # minutes that an agent's idea of our clock may be before it
MEANS = ("use_mean", "memory_mean_mib", "power_mean_w")
MOST = (
    "use_max",
    "memory_max_mib",
    "temperature_max_c",
    "power_max_w",
    "ecc_corrected",
    "ecc_uncorrected",
    "outside",
)
METRICS = MEANS + MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One card: a value for each moment of the series, None where nothing is known."""

    use_mean: list[float | None]  # percent
    use_max: list[float | None]
    memory_mean_mib: list[float | None]
    memory_max_mib: list[float | None]
    temperature_max_c: list[float | None]
    power_mean_w: list[float | None]
    power_max_w: list[float | None]
    ecc_corrected: list[float | None]  # since the driver was loaded or the card reset
    ecc_uncorrected: list[float | None]
    outside: list[float | None]  # processes that are no task's
    xids: list[tuple[int, int]]  # (seconds since the epoch, number), each minute's once


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What was measured on some cards, all at the same moments."""

    step_s: int  # between two moments; a value covers the time up to the next one
    at: list[int]  # seconds since the epoch
    cards: dict[int, Line]  # by the card's id; each card that was asked for


def keep(host_id: int, minutes: Sequence[MinuteReport], now: datetime) -> None:
    """Keep what a host's agent measured, once however often it is reported; two statements."""
    newest = int(now.timestamp() // 60) + AHEAD
    oldest = newest - (settings.CARD_METRICS_DAYS or 36500) * 24 * 60
    minutes = [one for one in minutes if oldest <= one.minute <= newest]
    if not minutes:
        return
    cards = dict(_CARDS.ask(host_id))
    new = [_row(cards[one.card], one) for one in minutes if one.card in cards]
    rows.insert_new(CardMinute, new, "card", "minute", "xids", *METRICS)


_CARDS = Prepared(lambda host: Card.objects.filter(host=host).order_by().values_list("index", "pk"), int)


def _row(card_id: int, one: MinuteReport) -> tuple[Any, ...]:
    xids = ",".join(str(xid) for xid in one.xids)
    return (card_id, one.minute, xids, *(getattr(one, name) for name in METRICS))


def remove(before: datetime) -> int:
    """Remove what was measured before that; card by card, so that nobody waits long. Return how many rows."""
    minute = int(before.timestamp() // 60)
    cards = Card.objects.order_by("pk").values_list("pk", flat=True)
    return sum(CardMinute.objects.filter(card=pk, minute__lt=minute).delete()[0] for pk in cards)


def remove_old(now: datetime) -> int:
    """Remove what is older than the setting says; 0 days: nothing ever."""
    days: int = settings.CARD_METRICS_DAYS
    return remove(now - timedelta(days=days)) if days else 0


def series(card_ids: Iterable[int], since: datetime, until: datetime, points: int = POINTS) -> Series:
    """Return what was measured on these cards from `since` to `until`, at so many moments at most; two queries.

    Means are of the minutes' means, the rest is the most that was seen.
    """
    cards = sorted(set(card_ids))
    first, last = int(since.timestamp() // 60), int(until.timestamp() // 60)
    step = max(1, -(-(last - first + 1) // points))  # minutes
    places = range(first // step, last // step + 1)
    found = CardMinute.objects.filter(card__in=rows.among(cards), minute__gte=first, minute__lte=last)
    lines: dict[int, dict[str, list[Any]]] = {
        card: {name: [None] * len(places) for name in METRICS} | {"xids": []} for card in cards
    }
    grouped = found.annotate(place=F("minute") / step).values("card", "place").order_by()
    figures = {name: Avg(name) for name in MEANS} | {name: Max(name) for name in MOST}
    for card, place, *values in grouped.annotate(**figures).values_list("card", "place", *figures):
        for name, value in zip(figures, values, strict=True):
            lines[card][name][place - places.start] = None if value is None else round(float(value), 1)
    for card, minute, xids in found.exclude(xids="").order_by("minute").values_list("card", "minute", "xids"):
        lines[card]["xids"] += [(minute * 60, int(xid)) for xid in xids.split(",")]
    return Series(
        step_s=step * 60,
        at=[place * step * 60 for place in places],
        cards={card: Line(**line) for card, line in lines.items()},
    )
