"""Whether a request could ever be met: by the hosts there are, and by a business's whole quota."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _t

from cluster.fresh import Fresh
from cluster.models import Card, GpuType, Host, Region
from jobs.values import Fault
from quotas.models import Business, Quota

CODES = frozenset({"impossible", "over_quota"})
NOTHING = "[]"  # what a host offers for as long as its storage, or its only engine, is away


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The size of a request."""

    host_num: int
    host_gpu_num: int
    region: Region | None
    needs: str  # what the hosts have to offer
    high: bool  # must fit into quota; auto and elastic tasks need none

    @property
    def cards(self) -> int:
        """Return the cards over all hosts."""
        return self.host_num * self.host_gpu_num


Sizes = Counter[
    tuple[int, int, str, int]
]  # (type, region, what the hosts offer, cards of the type on one) → hosts


class Fleet:
    """How many hosts have how many cards: as it was a moment ago, and before anything is refused as it is now."""

    @cached_property
    def lately(self) -> Sizes:
        """Return what many requests share."""
        return _lately.get()

    @cached_property
    def now(self) -> Sizes:
        """Return what this one looks at alone."""
        return _sizes_now()


class Quotas:
    """The quotas of some businesses; one query, made when it is first asked for: only high tasks need one."""

    def __init__(self, businesses: Iterable[int]) -> None:
        """Look at those of the businesses with these ids."""
        self._businesses = list(businesses)

    @cached_property
    def _cards(self) -> dict[tuple[int, int], dict[int | None, int]]:
        found: dict[tuple[int, int], dict[int | None, int]] = defaultdict(dict)
        rows = Quota.objects.filter(business__in=self._businesses).order_by()
        for business, gpu_type, region, cards in rows.values_list(
            "business_id", "gpu_type_id", "region_id", "cards"
        ):
            found[business, gpu_type][region] = cards
        return found

    def most(self, business: int, gpu_type: int, region: Region | None) -> int:
        """Return the most cards of the type that the business may ever hold there."""
        return _allowed(self._cards.get((business, gpu_type), {}), region)


def _sizes_now() -> Sizes:
    """Return the hosts that are there, counted by their size; one query."""
    cards = Card.objects.exclude(state=Card.State.MISSING).exclude(host__state=Host.State.REMOVED)
    # A list's text has its words in quotes, in both databases.
    cards = cards.annotate(offers=Cast("host__offers", TextField())).order_by()
    hosts = cards.values("gpu_type_id", "host__region_id", "offers", "host_id").annotate(number=Count("id"))
    return Counter(hosts.values_list("gpu_type_id", "host__region_id", "offers", "number"))


_lately = Fresh(_sizes_now, 3.0)


def faults(
    ask: Ask,
    gpu_types: Sequence[GpuType],
    business: Business,
    *,
    fleet: Fleet | None = None,
    quotas: Quotas | None = None,
) -> list[Fault]:
    """Return why `ask` can never be met with any of the types, or an empty list."""
    fleet = fleet or Fleet()
    sizes = fleet.lately
    large = _large(ask, gpu_types, sizes, offering=True)
    if not any(large[gpu_type.pk] >= ask.host_num for gpu_type in gpu_types):
        sizes = fleet.now
        large = _large(ask, gpu_types, sizes, offering=True)
    fitting = [gpu_type for gpu_type in gpu_types if large[gpu_type.pk] >= ask.host_num]
    found = [] if fitting else [_no_hosts(ask, gpu_types, large, sizes)]
    if ask.high:
        quotas = quotas or Quotas([business.pk])
        allowed = {gpu_type.pk: quotas.most(business.pk, gpu_type.pk, ask.region) for gpu_type in gpu_types}
        if not any(ask.cards <= allowed[gpu_type.pk] for gpu_type in fitting or gpu_types):
            found.append(_over_quota(ask, fitting or gpu_types, allowed, business))
    return found


def _large(ask: Ask, gpu_types: Sequence[GpuType], sizes: Sizes, *, offering: bool) -> Counter[int]:
    """Return how many hosts have enough cards, by type; `offering`: only those that offer what it needs."""
    large: Counter[int] = Counter()
    for _cards, gpu_type, hosts in _there(ask, gpu_types, sizes, ask.host_gpu_num, offering=offering):
        large[gpu_type] += hosts
    return large


def _there(
    ask: Ask, gpu_types: Sequence[GpuType], sizes: Sizes, least: int, *, offering: bool = False
) -> list[tuple[int, int, int]]:
    """Return (cards, type, hosts) of the hosts with `least` cards of a type or more, in the region asked for."""
    wanted = {gpu_type.pk for gpu_type in gpu_types}
    region, offer = ask.region.pk if ask.region else None, f'"{ask.needs}"'
    return [
        (cards, gpu_type, hosts)
        for (gpu_type, at, offers, cards), hosts in sizes.items()
        if gpu_type in wanted
        and cards >= least
        and (region is None or at == region)
        and (not offering or offer in offers or offers == NOTHING)
    ]


KINDS = {
    "container": (_t("run containers"), "image_full_name"),
    "container_ceph": (_t("run containers with private ceph"), "image_full_name"),
    "process": (_t("run a task that names no image"), "image_full_name"),
    "process_ceph": (_t("mount private ceph"), "dataset_params"),
    "mpijob": (_t("run MPIJobs that people bring"), "region"),
}


def _no_kind(ask: Ask, gpu_types: Sequence[GpuType], able: int) -> Fault:
    """Say that hosts are large enough, but too few of them can run such a task."""
    can, field = KINDS.get(ask.needs, (ask.needs, "image_full_name"))
    words = {"hosts": ask.host_num, "cards": ask.host_gpu_num, "can": can, "able": able}
    words["types"] = ", ".join(gpu_type.name for gpu_type in gpu_types)
    if not able:
        message = _("No host with %(cards)d cards (%(types)s) can %(can)s.")
    else:
        message = _(
            "Asks %(hosts)d hosts with %(cards)d cards (%(types)s) each; only %(able)d such hosts can %(can)s."
        )
    return Fault(field, "impossible", message % words)


def _no_hosts(ask: Ask, gpu_types: Sequence[GpuType], able: Counter[int], sizes: Sizes) -> Fault:
    """Say what the largest is: of the hosts, else of the sets of hosts that are large enough."""
    if max(_large(ask, gpu_types, sizes, offering=False).values(), default=0) >= ask.host_num:
        return _no_kind(ask, gpu_types, max(able.values(), default=0))
    names = {gpu_type.pk: gpu_type.name for gpu_type in gpu_types}
    where = _("region %s") % ask.region.name if ask.region else _("any region")
    there = _there(ask, gpu_types, sizes, 1)
    words: dict[str, object] = {"types": ", ".join(names.values()), "where": where}
    words |= {"hosts": ask.host_num, "cards": ask.host_gpu_num}
    if not there:
        return Fault("GPUName", "impossible", _("No host with %(types)s stands in %(where)s.") % words)
    largest, gpu_type, _hosts = max(there, key=lambda size: (size[0], -size[1]))
    if largest < ask.host_gpu_num:
        message = _(
            "Asks %(cards)d cards (%(types)s) on one host; "
            "the largest host in %(where)s has %(largest)d %(type)s."
        )
        return Fault(
            "host_gpu_num", "impossible", message % (words | {"largest": largest, "type": names[gpu_type]})
        )
    large = _large(ask, gpu_types, sizes, offering=False)
    enough = [large[pk] for pk in names]
    message = _(
        "Asks %(hosts)d hosts with %(cards)d cards (%(types)s) each; "
        "%(where)s has %(most)d such hosts of one type."
    )
    return Fault("host_num", "impossible", message % (words | {"most": max(enough)}))


def _allowed(cards: dict[int | None, int], region: Region | None) -> int:
    """Return the cap of one type from its rows by region (None: all): a region's row caps within that."""
    if region is None:
        return cards.get(None, sum(cards.values()))
    caps = [cards[key] for key in (None, region.pk) if key in cards]
    return min(caps, default=0)


def _over_quota(ask: Ask, gpu_types: Sequence[GpuType], allowed: dict[int, int], business: Business) -> Fault:
    message = _(
        "Asks %(cards)d cards as a high task; the whole quota of %(flag)s is %(quota)s. "
        "Ask for fewer, or set is_elasticity to true."
    )
    quota = ", ".join(f"{allowed[gpu_type.pk]} {gpu_type.name}" for gpu_type in gpu_types)
    # The larger of the two factors is the one to look at first.
    field = "host_num" if ask.host_num > ask.host_gpu_num else "host_gpu_num"
    return Fault(field, "over_quota", message % {"cards": ask.cards, "flag": business.flag, "quota": quota})
