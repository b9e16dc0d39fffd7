"""What businesses hold and wait for now: the same figures for the list of them and for the page of one."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from django.db.models import F, Sum

from jobs import use
from jobs.models import Task, TaskClass
from jobs.scheduling.reasons import SENTENCES
from jobs.states import State
from quotas.models import Quota

# What a high task waits for: quota, its own time, else cards, for which its business has quota left.
FOR_QUOTA = frozenset({"no_quota", "quota", "quota_over", "quota_region", "quota_kept"})
FOR_TIME = frozenset({"hold", "dependency", "not_before", "backoff"})
FOR_CARDS = frozenset(SENTENCES) - FOR_QUOTA - FOR_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One GPU type of one business, in all regions together or in one; cards throughout."""

    business: int
    gpu_type: int
    region: int | None
    # Of high tasks; None: what they take in this region is capped in all of them together only.
    limit: int | None
    high: int
    elastic: int
    elastic_cap: int | None
    user_elastic_cap: int | None
    for_cards: int  # that high tasks wait for although quota is left
    for_quota: int
    for_elastic: int
    unseen: int  # of high tasks that no pass looked at yet

    @property
    def over(self) -> int:
        """Return what high tasks hold beyond the quota."""
        return 0 if self.limit is None else max(0, self.high - self.limit)

    @property
    def left(self) -> int | None:
        """Return what high tasks may still take; never less than none."""
        return None if self.limit is None else max(0, self.limit - self.high)

    @property
    def waiting(self) -> int:
        """Return all cards that are waited for."""
        return self.for_cards + self.for_quota + self.for_elastic + self.unseen


@dataclass(slots=True)
class Demand:
    """Cards that queued tasks ask for."""

    for_cards: int = 0
    for_quota: int = 0
    elastic: int = 0
    unseen: int = 0


Place = tuple[int, int, int | None]  # business, GPU type, region or None for all


def lines(businesses: Collection[int]) -> list[Line]:
    """Return the lines of these businesses (ids) by business and type, all regions first; four queries."""
    quotas = {
        (quota.business_id, quota.gpu_type_id, quota.region_id): quota
        for quota in Quota.objects.filter(business__in=businesses).order_by()
    }
    used, demand = use.by_business(businesses), _demand(businesses)
    places = {*quotas, *demand, *((business, kind, region) for business, kind, region, _class in used)}
    places |= {(business, kind, None) for business, kind, _region in places}
    in_order = sorted(places, key=lambda place: (place[:2], place[2] or 0))
    return [_line(place, quotas, used, demand.get(place, Demand())) for place in in_order]


def _line(place: Place, quotas: Mapping[Place, Quota], used: use.Use, asked: Demand) -> Line:
    business, kind, region = place
    quota = quotas.get(place)
    return Line(
        business=business,
        gpu_type=kind,
        region=region,
        limit=_limit(place, quotas),
        high=used.high(*place),
        elastic=used.elastic(*place),
        elastic_cap=quota.elastic_cards if quota else None,
        user_elastic_cap=quota.user_elastic_cards if quota else None,
        for_cards=asked.for_cards,
        for_quota=asked.for_quota,
        for_elastic=asked.elastic,
        unseen=asked.unseen,
    )


def _limit(place: Place, quotas: Mapping[Place, Quota]) -> int | None:
    """Return the quota as the scheduler reads it: no row, no card; without one for all, the regions' together."""
    business, kind, region = place
    if place in quotas:
        return quotas[place].cards
    if region is None:
        return sum(quota.cards for key, quota in quotas.items() if key[:2] == (business, kind))
    return None if (business, kind, None) in quotas else 0


def _demand(businesses: Iterable[int]) -> dict[Place, Demand]:
    """Sum up what queued tasks ask for; one that takes several types counts at each of them."""
    rows = (
        Task.objects.filter(business__in=list(businesses), state=State.QUEUED)
        .exclude(reason_code__in=FOR_TIME)
        .order_by()
        .values_list("business_id", "wanted_class", "reason_code", "gpu_types", "region_id")
        .annotate(cards=Sum(F("host_num") * F("host_gpu_num")))
    )
    found: dict[Place, Demand] = defaultdict(Demand)
    for business, wanted, code, kinds, region, cards in rows:
        for kind in kinds:
            for where in {None, region}:
                _count(found[business, kind, where], wanted, code, cards)
    return dict(found)


def _count(demand: Demand, wanted: str, code: str, cards: int) -> None:
    if wanted != TaskClass.HIGH:  # an auto task that waits is guaranteed nothing either
        demand.elastic += cards
    elif code in FOR_QUOTA:
        demand.for_quota += cards
    elif code in FOR_CARDS:
        demand.for_cards += cards
    else:
        demand.unseen += cards
