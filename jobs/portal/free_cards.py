"""The tiles of free cards: a range, the largest gang, what quota leaves, the last day, hosts by free cards."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from cluster import clock, inventory, samples
from cluster.fresh import Fresh
from cluster.inventory import FreeCards
from jobs import use
from quotas import access
from quotas.access import AnyUser
from quotas.models import Business

FREE_S, COURSE_S = 1.0, 60.0  # seconds for which all pages show the same figures
WIDTH, HEIGHT = 96, 24  # of the drawn course
BUSINESSES_SHOWN = 3  # in one tile


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLeft:
    """What a business may still take with high tasks; cards."""

    flag: str
    left: int
    limit: int
    everywhere: bool  # for all regions together: the tiles of other regions show the same cards


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """How many hosts have so many cards free."""

    free: int
    hosts: int
    x: int
    y: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What is free of one GPU type in one region."""

    free: FreeCards
    high: int | None  # the upper end of the range, which is no more than there are; None: it has none
    exact: bool  # operators see the number itself
    quotas: list[QuotaLeft]
    slot: str  # what stands in place of the quotas, where they are put in later
    course: str  # the points of a line, blank where nothing is known
    bars: list[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTiles:
    """The free cards of one region, type by type."""

    name: str
    tiles: list[Tile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """All that makes one reader see other tiles than the next one."""

    exact: bool  # the numbers themselves, not their ranges
    businesses: tuple[tuple[int, str], ...]  # his own: id and flag, by flag


def kind_of(user: AnyUser) -> Kind:
    """Return what kind of reader `user` is; one query."""
    mine = Business.objects.filter(member__user=user.pk).order_by("flag").values_list("pk", "flag")
    return Kind(exact=access.sees_all(user), businesses=tuple(mine))


def now() -> list[FreeCards]:
    """Return what is free at this moment."""
    return inventory.free_cards(clock.now(), use.held_cards())


def by_region(kind: Kind) -> list[RegionTiles]:
    """Return the tiles, region by region in the order of their names; three queries of the reader's own."""
    left = QuotasLeft(pk for pk, _flag in kind.businesses)
    free = _free.get()
    return tiles(free, exact=kind.exact, quotas=[left.of(kind, one) for one in free])


def tiles(
    free: Sequence[FreeCards],
    *,
    exact: bool,
    quotas: Sequence[list[QuotaLeft]] = (),
    slots: Sequence[str] = (),
) -> list[RegionTiles]:
    """Return the tiles of what is free, region by region; each with its quotas, or with a slot for them."""
    day = _last_day.get()
    found = [
        Tile(
            free=one,
            high=one.most,
            exact=exact,
            quotas=quotas[number] if quotas else [],
            slot=slots[number] if slots else "",
            course=line(day.get((one.region_id, one.gpu_type_id), ()), one.as_of),
            bars=bars(one.hosts_by_free),
        )
        for number, one in enumerate(free)  # in the order of region and type
    ]
    return [
        RegionTiles(name=name, tiles=list(those))
        for name, those in groupby(found, lambda tile: tile.free.region)
    ]


_free = Fresh(now, FREE_S)
_last_day = Fresh(lambda: samples.last_day(clock.now()), COURSE_S)


class QuotasLeft:
    """What is left of the quotas of some businesses, by type and region."""

    def __init__(self, businesses: Iterable[int]) -> None:
        self.businesses = frozenset(businesses)
        self._ledger = use.ledger(self.businesses)

    def of(self, kind: Kind, free: FreeCards) -> list[QuotaLeft]:
        """Return what is left for tasks of that type in that region, of a reader's businesses with a quota of it."""
        found = []
        for business, flag in kind.businesses:
            _, limit = self._ledger.high_use(business, free.gpu_type_id)
            if limit:
                left = self._ledger.high_caps(business, free.gpu_type_id).left(free.region_id)
                own = self._ledger.rows.get((business, free.gpu_type_id), {})
                everywhere = free.region_id not in own
                found.append(QuotaLeft(flag=flag, left=max(0, left), limit=limit, everywhere=everywhere))
        return found[:BUSINESSES_SHOWN]


def line(day: Sequence[tuple[datetime, int]], now: datetime) -> str:
    """Return the points of a line through the last 24 hours, as high as the most that was free."""
    if len(day) < 2:
        return ""
    start, most = now - timedelta(days=1), max(free for _, free in day) or 1
    points = [
        (WIDTH * (at - start) / timedelta(days=1), HEIGHT - 1 - (HEIGHT - 2) * free / most)
        for at, free in day
    ]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def bars(hosts_by_free: Sequence[int]) -> list[Bar]:
    """Return a bar for each number of free cards from 1 on."""
    most = max(hosts_by_free[1:], default=0)
    found = []
    for free, hosts in enumerate(hosts_by_free[1:], 1):
        height = max(2, round(HEIGHT * hosts / most)) if hosts else 0
        found.append(Bar(free=free, hosts=hosts, x=10 * free - 9, y=HEIGHT - height, height=height))
    return found
