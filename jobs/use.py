"""What is in use now, derived from what lives: cards held for tasks to come, and quota by business."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from django.db.models import Count

from cluster.models import CardLease
from jobs.models import Attempt, Claim, TaskClass
from jobs.scheduling import types
from jobs.scheduling.quota import Ledger
from quotas.models import Quota


def held_cards() -> dict[int, dict[int, int]]:
    """Return host id → type id → cards that are held for a task while its victims leave."""
    held: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for gpu_type, hosts in Claim.objects.values_list("gpu_type_id", "hosts"):
        for host, cards in hosts.items():
            held[int(host)][gpu_type] += cards
    return held


class Use(Counter[tuple[int, int, int | None, str]]):
    """Cards of open attempts by (business id, type id, region id or None for all, class)."""

    def high(self, business: int, gpu_type: int, region: int | None) -> int:
        """Return the cards that count as quota."""
        return self[business, gpu_type, region, TaskClass.HIGH]

    def elastic(self, business: int, gpu_type: int, region: int | None) -> int:
        """Return the cards that cost no quota."""
        return self[business, gpu_type, region, TaskClass.ELASTIC]


def by_business(businesses: Iterable[int]) -> Use:
    """Return what the businesses (ids) use now, in two queries; kept places and lost hosts count too."""
    rows = Attempt.objects.filter(ended_at=None, task__business__in=list(businesses))
    facts = rows.values_list("pk", "task__business_id", "task_class")
    attempts = {pk: (business, task_class) for pk, business, task_class in facts}
    leases = (
        CardLease.objects.filter(released_at=None, instance__gang__in=rows.values("pk"))
        .order_by()
        .values("instance__gang", "card__gpu_type_id", "instance__host__region_id")
        .annotate(cards=Count("pk"))
    )
    use = Use()
    for gang, gpu_type, region, cards in leases.values_list(
        "instance__gang", "card__gpu_type_id", "instance__host__region_id", "cards"
    ):
        if gang in attempts:  # else it began in between
            business, task_class = attempts[gang]
            use[business, gpu_type, region, task_class] += cards
            use[business, gpu_type, None, task_class] += cards
    return use


def ledger(businesses: Iterable[int]) -> Ledger:
    """Return the scheduler's own account of these businesses' quotas and high tasks, in three queries."""
    mine = list(businesses)
    columns = ("business_id", "gpu_type_id", "region_id", "cards")
    rows = Quota.objects.filter(business__in=mine).values_list(*columns)
    found = Ledger(
        types.Quota(business=business, gpu_type=gpu_type, region=region, cards=cards)
        for business, gpu_type, region, cards in rows
    )
    for (business, gpu_type, region, task_class), cards in by_business(mine).items():
        if region is not None and task_class == TaskClass.HIGH:
            found.add_high(business, gpu_type, region, cards)
    return found
