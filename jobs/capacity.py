"""Whether a request could ever be met: by the hosts there are, and by a business's whole quota."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _t

from cluster.models import Card, GpuType, Host, Region
from jobs.values import Fault
from quotas.models import Business, Quota

CODES = frozenset({"impossible", "over_quota"})


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


def faults(ask: Ask, gpu_types: Sequence[GpuType], business: Business) -> list[Fault]:
    """Return why `ask` can never be met with any of the types, or an empty list."""
    large = _large(ask, gpu_types, offering=True)
    fitting = [gpu_type for gpu_type in gpu_types if large[gpu_type.pk] >= ask.host_num]
    found = [] if fitting else [_no_hosts(ask, gpu_types, large)]
    if ask.high:
        allowed = _quota(ask, gpu_types, business)
        if not any(ask.cards <= allowed[gpu_type.pk] for gpu_type in fitting or gpu_types):
            found.append(_over_quota(ask, fitting or gpu_types, allowed, business))
    return found


def _large(ask: Ask, gpu_types: Sequence[GpuType], *, offering: bool) -> Counter[int]:
    """Return how many hosts have enough cards, by type; `offering`: only those that offer what it needs."""
    sizes = _sizes(ask, gpu_types, ask.host_gpu_num, offering=offering)
    return Counter(gpu_type for _cards, gpu_type in sizes)


def _sizes(
    ask: Ask, gpu_types: Sequence[GpuType], least: int, *, offering: bool = False
) -> list[tuple[int, int]]:
    """Return (cards, type) of every host with `least` cards of a type or more, in the region asked for."""
    cards = Card.objects.filter(gpu_type__in=gpu_types).exclude(state=Card.State.MISSING)
    cards = cards.exclude(host__state=Host.State.REMOVED)
    if ask.region:
        cards = cards.filter(host__region=ask.region)
    if offering:
        # A list's text has its words in quotes, in both databases.
        cards = cards.annotate(offers=Cast("host__offers", TextField())).filter(
            offers__contains=f'"{ask.needs}"'
        )
    counted = cards.order_by().values("gpu_type_id", "host_id").annotate(number=Count("id"))
    return list(counted.filter(number__gte=least).values_list("number", "gpu_type_id"))


KINDS = {
    "container": (_t("run containers"), "image_full_name"),
    "container_ceph": (_t("run containers with private ceph"), "image_full_name"),
    "process": (_t("run a task that names no image"), "image_full_name"),
    "process_ceph": (_t("mount private ceph"), "dataset_params"),
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


def _no_hosts(ask: Ask, gpu_types: Sequence[GpuType], able: Counter[int]) -> Fault:
    """Say what the largest is: of the hosts, else of the sets of hosts that are large enough."""
    if max(_large(ask, gpu_types, offering=False).values(), default=0) >= ask.host_num:
        return _no_kind(ask, gpu_types, max(able.values(), default=0))
    names = {gpu_type.pk: gpu_type.name for gpu_type in gpu_types}
    where = _("region %s") % ask.region.name if ask.region else _("any region")
    sizes = _sizes(ask, gpu_types, 1)
    words: dict[str, object] = {"types": ", ".join(names.values()), "where": where}
    words |= {"hosts": ask.host_num, "cards": ask.host_gpu_num}
    if not sizes:
        return Fault("GPUName", "impossible", _("No host with %(types)s stands in %(where)s.") % words)
    largest, gpu_type = max(sizes, key=lambda size: (size[0], -size[1]))
    if largest < ask.host_gpu_num:
        message = _(
            "Asks %(cards)d cards (%(types)s) on one host; "
            "the largest host in %(where)s has %(largest)d %(type)s."
        )
        return Fault(
            "host_gpu_num", "impossible", message % (words | {"largest": largest, "type": names[gpu_type]})
        )
    enough = [sum(1 for number, of in sizes if of == pk and number >= ask.host_gpu_num) for pk in names]
    message = _(
        "Asks %(hosts)d hosts with %(cards)d cards (%(types)s) each; "
        "%(where)s has %(most)d such hosts of one type."
    )
    return Fault("host_num", "impossible", message % (words | {"most": max(enough)}))


def _quota(ask: Ask, gpu_types: Sequence[GpuType], business: Business) -> dict[int, int]:
    """Return the most cards of each type that the business may ever hold where the request asks them."""
    rows = Quota.objects.filter(business=business, gpu_type__in=gpu_types)
    by_type: dict[int, dict[int | None, int]] = {gpu_type.pk: {} for gpu_type in gpu_types}
    for gpu_type, region, cards in rows.values_list("gpu_type_id", "region_id", "cards"):
        by_type[gpu_type][region] = cards
    return {pk: _allowed(cards, ask.region) for pk, cards in by_type.items()}


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
