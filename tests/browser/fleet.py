"""A fleet and its last day, so that the first page has something to show: one of the deeds."""

import random
from datetime import timedelta

from django.utils import timezone

from cluster import samples
from cluster.models import Card, FreeCardSample, Host
from quotas.models import Quota
from tests.world import World

HOSTS = {"A100-80G": 9, "V100": 5, "H200": 2}  # in each region
FREE = (0, 0, 1, 2, 4, 8, 8)  # cards that a host may have free
world = World()


def fleet() -> None:
    """Add hosts of two regions and three types, quotas of `ads`, and a day of samples."""
    dice = random.Random(4)
    for region in ("Shenzhen", "Beijing"):
        for gpu_type, hosts in HOSTS.items():
            for number in range(hosts):
                host = world.host(f"{region}-{gpu_type}-{number}".lower(), 8, gpu_type, region)
                free = 0 if gpu_type == "H200" else dice.choice(FREE)
                host.cards.filter(index__gte=free).update(state=Card.State.EXTERNAL)
            _day(dice, region, gpu_type)
    for gpu_type in HOSTS:
        quota = {"business": world.business("ads"), "gpu_type": world.gpu_type(gpu_type), "region": None}
        Quota.objects.get_or_create(**quota, defaults={"cards": 32})
    Host.objects.update(last_seen_at=timezone.now())


def _day(dice: random.Random, region: str, gpu_type: str) -> None:
    now, free = timezone.now().replace(second=0, microsecond=0), 20
    quarters = [now - timedelta(minutes=before) for before in range(24 * 60)]
    for at in quarters:
        if at.minute in samples.QUARTERS:
            free = max(0, free + dice.randint(-6, 6))
            row = {"region": world.region(region), "gpu_type": world.gpu_type(gpu_type), "at": at}
            FreeCardSample.objects.create(**row, free=free, largest_block=min(8, free))
