"""Who may hold how many cards: the quota rows against what is held, derived from what runs and is claimed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.scheduling.types import Quota

UNLIMITED = 1 << 40  # cards; more than any cluster has
_EVERYWHERE = None


@dataclass(slots=True, eq=False)
class Caps:
    """How many more cards may be taken: in all regions together, and in each region.

    None of them is changed. They are not declared frozen, for they are made anew whenever cards change hands.
    """

    total: int
    regions: Mapping[int, int] | None = None  # None: only the total binds
    elsewhere: int = UNLIMITED  # in a region that `regions` does not name

    def allows(self, region: int | None, cards: int) -> bool:
        """Say whether `cards` more in the region (None: spread freely) stay within the caps."""
        return cards <= self.total and (self.regions is None or cards <= self.left(region))

    def left(self, region: int | None) -> int:
        """Return the most cards that may still be taken in the region (None: spread freely)."""
        if self.regions is None:
            return self.total
        if region is None:
            there = max(self.elsewhere, sum(left for left in self.regions.values() if left > 0))
        else:
            there = self.regions.get(region, self.elsewhere)
        return min(self.total, there)

    def raised(self, by_region: Mapping[int, int]) -> "Caps":
        """Return the caps once so many more cards are given back in each region."""
        regions = self.regions and {
            region: left + by_region.get(region, 0) for region, left in self.regions.items()
        }
        return Caps(self.total + sum(by_region.values()), regions, self.elsewhere)

    def hosts_in(self, region: int, cards_per_host: int) -> int:
        """Return on how many hosts of the region so many cards each may be taken."""
        if self.regions is None:
            return UNLIMITED
        return max(0, self.regions.get(region, self.elsewhere)) // cards_per_host


FREE = Caps(UNLIMITED)


class Ledger:
    """The quota rows and the cards held under them; high cards by business, elastic ones also by user."""

    def __init__(self, rows: Iterable[Quota] = (), *, high_unlimited: bool = False) -> None:
        self.high_unlimited = high_unlimited
        self.rows: dict[tuple[int, int], dict[int | None, Quota]] = {}
        self.high: dict[tuple[int, int], dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
        self.elastic: dict[tuple[int, int, int | None], dict[int | None, int]] = defaultdict(
            lambda: defaultdict(int)
        )
        for row in rows:
            self.rows.setdefault((row.business, row.gpu_type), {})[row.region] = row
        self._high_caps: dict[tuple[int, int], Caps] = {}  # until something changes under them
        self.caps_elastic = any(
            row.elastic_cards is not None or row.user_elastic_cards is not None
            for by_region in self.rows.values()
            for row in by_region.values()
        )

    def add_high(self, business: int, gpu_type: int, region: int, cards: int) -> None:
        """Count cards (negative: give back) of a high task."""
        used = self.high[business, gpu_type]
        used[_EVERYWHERE] += cards
        used[region] += cards
        self._high_caps.pop((business, gpu_type), None)

    def set_row(self, row: Quota) -> None:
        """Change one quota row."""
        self.high_unlimited = False
        self.rows.setdefault((row.business, row.gpu_type), {})[row.region] = row
        self._high_caps.clear()

    def add_elastic(self, business: int, user: int, gpu_type: int, region: int, cards: int) -> None:
        """Count cards (negative: give back) of an elastic task; without any cap nobody asks for the sums."""
        if not self.caps_elastic:
            return
        for key in ((business, gpu_type, None), (business, gpu_type, user)):
            used = self.elastic[key]
            used[_EVERYWHERE] += cards
            used[region] += cards

    def high_use(self, business: int, gpu_type: int, region: int | None = None) -> tuple[int, int]:
        """Return (held, limit) of the business; without a region over all regions."""
        held = self.high[business, gpu_type][region]
        rows = self.rows.get((business, gpu_type), {})
        if region in rows:
            return held, rows[region].cards
        if region is None and rows:
            return held, sum(row.cards for row in rows.values())  # only regions have rows
        return held, UNLIMITED if self.high_unlimited else 0

    def high_caps(self, business: int, gpu_type: int) -> Caps:
        """Return what the business may still take for high tasks; a missing row allows nothing."""
        key = (business, gpu_type)
        caps = self._high_caps.get(key)
        if caps is None:
            caps = self._high_caps[key] = self._work_out_high_caps(business, gpu_type)
        return caps

    def _work_out_high_caps(self, business: int, gpu_type: int) -> Caps:
        rows = self.rows.get((business, gpu_type))
        used = self.high[business, gpu_type]
        if rows is None:
            return FREE if self.high_unlimited else Caps(-used[_EVERYWHERE])
        overall = rows.get(_EVERYWHERE)
        if overall and len(rows) == 1:
            return Caps(overall.cards - used[_EVERYWHERE])
        total = overall.cards - used[_EVERYWHERE] if overall else UNLIMITED
        regions = {region: row.cards - used[region] for region, row in rows.items() if region is not None}
        return Caps(total, regions or None, UNLIMITED if overall else 0)

    def elastic_caps(self, business: int, user: int, gpu_type: int) -> Caps:
        """Return what the user may still take for elastic tasks within his business's caps and his own."""
        if not self.caps_elastic:
            return FREE
        ours, mine = self.elastic[business, gpu_type, None], self.elastic[business, gpu_type, user]
        return self._elastic_caps(business, gpu_type, ours, mine)

    def elastic_caps_of_all(self, business: int, gpu_type: int) -> Caps:
        """Return what the business may still take for elastic tasks, whatever a single user of it may."""
        return self._elastic_caps(business, gpu_type, self.elastic[business, gpu_type, None], None)

    def elastic_limits(self, business: int, gpu_type: int) -> Caps:
        """Return what a user could take for elastic tasks where none of his business ran."""
        return self._elastic_caps(business, gpu_type, {}, {})

    def _elastic_caps(
        self,
        business: int,
        gpu_type: int,
        ours: Mapping[int | None, int],
        mine: Mapping[int | None, int] | None,
    ) -> Caps:
        """Return the caps less what the business and the user hold by region; None: the user's do not count."""
        rows = self.rows.get((business, gpu_type))
        if rows is None:
            return FREE
        left: dict[int | None, int] = {}
        for region, row in rows.items():
            left[region] = UNLIMITED
            if row.elastic_cards is not None:
                left[region] = row.elastic_cards - ours.get(region, 0)
            if row.user_elastic_cards is not None and mine is not None:
                left[region] = min(left[region], row.user_elastic_cards - mine.get(region, 0))
        regions = {region: cards for region, cards in left.items() if region is not None}
        return Caps(left.get(_EVERYWHERE, UNLIMITED), regions or None)
