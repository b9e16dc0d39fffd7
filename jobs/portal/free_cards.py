"""The tiles of free cards: a range, the largest gang, what quota leaves, the last day, hosts by free cards."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.contrib.auth.models import User
from django.utils import timezone

from cluster import inventory, samples
from cluster.fresh import Fresh
from cluster.inventory import FreeCards
from jobs import use
from quotas import access
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
    exact: bool  # operators see the number itself
    quotas: list[QuotaLeft]
    course: str  # the points of a line, blank where nothing is known
    bars: list[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTiles:
    """The free cards of one region, type by type."""

    name: str
    tiles: list[Tile]


def by_region(user: User) -> list[RegionTiles]:
    """Return the tiles, region by region in the order of their names; three queries of the user's own."""
    quotas = _quotas_left(user)
    exact = access.is_operator(user)
    day = _last_day.get()
    tiles = [
        Tile(
            free=free,
            exact=exact,
            quotas=quotas(free.gpu_type_id, free.region_id),
            course=line(day.get((free.region_id, free.gpu_type_id), ()), free.as_of),
            bars=_bars(free.hosts_by_free),
        )
        for free in _free.get()  # in the order of region and type
    ]
    return [
        RegionTiles(name=name, tiles=list(those))
        for name, those in groupby(tiles, lambda tile: tile.free.region)
    ]


_free = Fresh(lambda: inventory.free_cards(timezone.now(), use.held_cards()), FREE_S)
_last_day = Fresh(lambda: samples.last_day(timezone.now()), COURSE_S)


def _quotas_left(user: User) -> "QuotasLeft":
    """Return what the user's businesses have left, the same for every tile."""
    mine = dict(Business.objects.filter(member__user=user).order_by("flag").values_list("pk", "flag"))
    return QuotasLeft(mine)


class QuotasLeft:
    """What is left of the quotas of some businesses, by type and region."""

    def __init__(self, flags: dict[int, str]) -> None:
        self._flags = flags
        self._ledger = use.ledger(flags)

    def __call__(self, gpu_type: int, region: int) -> list[QuotaLeft]:
        """Return what is left for tasks of the type in the region, of those who have a quota of it."""
        found = []
        for business, flag in self._flags.items():
            _, limit = self._ledger.high_use(business, gpu_type)
            if limit:
                left = self._ledger.high_caps(business, gpu_type).left(region)
                found.append(QuotaLeft(flag=flag, left=max(0, left), limit=limit))
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


def _bars(hosts_by_free: Sequence[int]) -> list[Bar]:
    """Return a bar for each number of free cards from 1 on."""
    most = max(hosts_by_free[1:], default=0)
    found = []
    for free, hosts in enumerate(hosts_by_free[1:], 1):
        height = max(2, round(HEIGHT * hosts / most)) if hosts else 0
        found.append(Bar(free=free, hosts=hosts, x=10 * free - 9, y=HEIGHT - height, height=height))
    return found
