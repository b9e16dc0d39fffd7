"""The history of free cards: one sample a minute, kept for a while."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from cluster import inventory
from cluster.models import FreeCardSample

KEPT_FOR = timedelta(days=35)
QUARTERS = (0, 15, 30, 45)  # the minutes of an hour whose samples make a course; no time zone moves them


def take(now: datetime, held: Mapping[int, Mapping[int, int]]) -> int:
    """Write down the free cards of this minute, once however often asked; return the number of rows.

    `held` as in inventory.free_cards.
    """
    minute = now.replace(second=0, microsecond=0)
    samples = [
        FreeCardSample(
            at=minute,
            region_id=row.region_id,
            gpu_type_id=row.gpu_type_id,
            free=row.free,
            largest_block=row.largest_block,
        )
        for row in inventory.free_cards(now, held)
    ]
    FreeCardSample.objects.bulk_create(samples, ignore_conflicts=True)
    FreeCardSample.objects.filter(at__lt=minute - KEPT_FOR).delete()
    return len(samples)


def last_day(now: datetime) -> dict[tuple[int, int], list[tuple[datetime, int]]]:
    """Return (time, free cards) each quarter of an hour of the last 24 hours, by (region id, type id)."""
    found: dict[tuple[int, int], list[tuple[datetime, int]]] = defaultdict(list)
    samples = FreeCardSample.objects.filter(at__gt=now - timedelta(days=1), at__minute__in=QUARTERS)
    rows = samples.order_by("at").values_list("region_id", "gpu_type_id", "at", "free")
    for region, gpu_type, at, free in rows:
        found[region, gpu_type].append((at, free))
    return found
