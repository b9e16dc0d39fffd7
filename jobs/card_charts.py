"""What was measured on the cards of an attempt while it had them, for pages and scripts to draw."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from cluster import card_metrics, clock
from cluster.models import CardLease
from jobs.models import Attempt

VALUES = 20_000  # of one metric over all cards, at most; so of many cards each gets fewer moments
FEWEST = 30


def of_attempt(
    attempt: Attempt, since: datetime | None = None, until: datetime | None = None, rank: int | None = None
) -> dict[str, Any]:
    """Return {"attempt", "step_s", "at", "cards"}: the cards of all its hosts, or of one, by rank and index.

    Not of the time before it had them nor after: that is others' business. A minute in which they changed
    hands has both.
    """
    since = max(filter(None, (since, attempt.created_at)))
    until = min(filter(None, (until, attempt.ended_at, clock.now())))
    leases = CardLease.objects.filter(gang=attempt.pk).order_by("instance__rank", "card__index")
    if rank is not None:
        leases = leases.filter(instance__rank=rank)
    cards = list(
        leases.values_list(
            "card_id",
            "instance__host__name",
            "instance__rank",
            "card__index",
            "card__gpu_type__name",
            "card__memory_mib",
        )
    )
    points = max(FEWEST, min(card_metrics.POINTS, VALUES // max(len(cards), 1)))
    series = card_metrics.series([card for card, *_ in cards], since, until, points)
    names = ("host", "rank", "index", "gpu_type", "memory_mib")
    return {
        "attempt": attempt.number,
        "step_s": series.step_s,
        "at": series.at,
        "cards": [dict(zip(names, facts, strict=True)) | _line(series.cards[card]) for card, *facts in cards],
    }


def _line(line: card_metrics.Line) -> dict[str, Any]:
    return asdict(line) | {"xids": [{"at": at, "xid": xid} for at, xid in line.xids]}


def nothing() -> dict[str, Any]:
    """Return the same of a task that had no cards yet."""
    return {"attempt": None, "step_s": int(timedelta(minutes=1).total_seconds()), "at": [], "cards": []}
