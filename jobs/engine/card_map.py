"""Every card of every host by what it is used for: the picture that operators look at."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import FilteredRelation, Q

from cluster import clock, inventory
from cluster.fresh import Fresh
from cluster.models import Card, Host
from jobs.engine import snapshot
from jobs.models import Attempt, Claim, TaskClass
from jobs.scheduling import types
from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.reservation import Binder

# What a card may be, a letter each; away: free, on a host that takes nothing.
FREE, HIGH, ELASTIC, HELD, RESERVED, BROKEN, OUTSIDE, AWAY = "fhekrboa"
LOST = "lost"  # in place of the state of a host that is silent
KEPT_S = 1.0  # for which all pages of a process show the same
Key = tuple[int, int]  # host, type


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The cards of one type on one host."""

    host: int
    name: str
    region: str
    gpu_type: str
    state: str  # of the host
    cells: str  # a letter for each card, in the order of their numbers

    @property
    def free(self) -> int:
        """Return how many cards anybody may have."""
        return self.cells.count(FREE)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Return what blocks are sorted by; no two have the same."""
        return self.region, self.gpu_type, self.name, self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMap:
    """All blocks, by region, type and name of the host."""

    at: datetime
    blocks: tuple[Block, ...]


def current() -> CardMap:
    """Return the map as it was a moment ago."""
    return _fresh.get()


def load() -> CardMap:
    """Return the map in a fixed number of queries; cards that their host reports no more are left out."""
    now = clock.seconds()
    facts = _hosts()
    names = inventory.type_names()
    kept = _kept(now)
    blocks = [
        Block(host=host, name=name, region=region, gpu_type=names[gpu_type], state=state, cells=cells)
        for (host, gpu_type), letters in _cards().items()
        if host in facts
        for name, region, state in [facts[host]]
        for cells in [_cells(letters, kept.get((host, gpu_type), ()), state)]
    ]
    return CardMap(
        at=datetime.fromtimestamp(now, UTC), blocks=tuple(sorted(blocks, key=lambda block: block.key))
    )


_fresh = Fresh(load, KEPT_S)


def _hosts() -> dict[int, tuple[str, str, str]]:
    """Return the name, the region and the state of each host that is not removed."""
    rows = Host.objects.exclude(state=Host.State.REMOVED).order_by()
    columns = ("pk", "name", "region__name", "state", "lost_since")
    return {
        pk: (name, region, LOST if lost_since else state)
        for pk, name, region, state, lost_since in rows.values_list(*columns)
    }


def _cards() -> dict[Key, list[tuple[int, str]]]:
    """Return the number and the letter of each card, by host and type."""
    classes = dict(Attempt.objects.filter(ended_at=None).values_list("pk", "task_class"))
    lease = FilteredRelation("leases", condition=Q(leases__released_at__isnull=True))
    rows = Card.objects.exclude(host__state=Host.State.REMOVED).exclude(state=Card.State.MISSING)
    columns = ("host_id", "gpu_type_id", "index", "state", "lease__gang")
    found: dict[Key, list[tuple[int, str]]] = defaultdict(list)
    for host, gpu_type, index, state, gang in rows.annotate(lease=lease).order_by().values_list(*columns):
        found[host, gpu_type].append((index, _letter(state, gang, classes)))
    return found


def _letter(state: str, gang: int | None, classes: Mapping[int, str]) -> str:
    if state != Card.State.OK:
        return BROKEN if state == Card.State.BROKEN else OUTSIDE
    if gang is None:
        return FREE
    return ELASTIC if classes.get(gang) == TaskClass.ELASTIC else HIGH


def _cells(letters: Iterable[tuple[int, str]], kept: Iterable[tuple[str, int]], state: str) -> str:
    """Return the letters in the order of the cards; of the free ones the first are those that are kept."""
    found = "".join(letter for _, letter in sorted(letters))
    if state != Host.State.READY:
        return found.replace(FREE, AWAY)
    for letter, cards in kept:
        found = found.replace(FREE, letter, cards)
    return found


def _kept(now: float) -> dict[Key, list[tuple[str, int]]]:
    """Return how many free cards are held for a task, or reserved by operators, by host and type."""
    found: dict[Key, list[tuple[str, int]]] = defaultdict(list)
    for (host, gpu_type), cards in _held().items():
        found[host, gpu_type].append((HELD, cards))
    for (gpu_type, host), rows in _bound(now).items():
        found[host, gpu_type].append((RESERVED, sum(cards for _, cards in rows)))
    return found


def _held() -> Counter[Key]:
    """Return the cards that claims name; those whose victims are still there are not free and show as theirs."""
    found: Counter[Key] = Counter()
    for gpu_type, hosts in Claim.objects.values_list("gpu_type_id", "hosts"):
        for host, cards in hosts.items():
            found[int(host), gpu_type] += cards
    return found


def _bound(now: float) -> Mapping[Key, list[tuple[types.Reservation, int]]]:
    """Return where the pass keeps the cards of the reservations that hold now: it chooses the hosts."""
    rows = list(snapshot.reservations(now, timedelta(seconds=1)))
    return Binder(Cluster.of(snapshot.load_hosts(now)), rows, now).bound if rows else {}
