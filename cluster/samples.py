"""The history of free cards: one sample a minute, kept for a while."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from cluster import inventory
from cluster.models import FreeCardSample

KEPT_FOR = timedelta(days=35)


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
