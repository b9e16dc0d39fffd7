"""Where free cards fit a task: best fit keeps large blocks whole, spread uses the emptiest hosts first."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from operator import itemgetter

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.hosts import Host, Pool
from jobs.scheduling.quota import FREE, Caps
from jobs.scheduling.types import Waiting

Size = tuple[int, int | None, int, int]  # type, region, hosts, cards on each


@dataclass(slots=True)
class Ask:
    """What is looked for: `cards` on each of `host_num` distinct hosts of one type."""

    gpu_type: int
    region: int | None
    host_num: int
    cards: int
    caps: Caps = FREE
    barred: frozenset[int] = frozenset()  # hosts to pass over
    accepts: Callable[[Host], bool] | None = None  # None: any other offered host will do
    plain: bool = field(init=False)  # nothing else counts: where one of a size finds nothing, all of them do
    size: Size = field(init=False)

    def __post_init__(self) -> None:
        self.plain = self.caps.regions is None and not self.barred and self.accepts is None
        self.size = (self.gpu_type, self.region, self.host_num, self.cards)

    def takes(self, host: Host) -> bool:
        """Say whether the task may use the offered host at all."""
        return host.id not in self.barred and (self.accepts is None or self.accepts(host))


def avoided(cluster: Cluster, task: Waiting) -> frozenset[int]:
    """Return the hosts to pass over because the task failed on them at once, where enough others are offered.

    Else it avoids nothing: a retry would wait for ever where it failed on the only hosts that can run it.
    """
    if not task.avoid:
        return task.avoid
    for gpu_type in task.gpu_types:
        hosts = (h for pool in cluster.pools_of(gpu_type, task.region) for h in pool.hosts.values())
        others = (h for h in hosts if h.id not in task.avoid and h.total >= task.host_gpu_num)
        fitting = (h for h in others if task.needs in h.offers)
        if len(list(islice(fitting, task.host_num))) == task.host_num:  # looks no further than it must
            return task.avoid
    return frozenset()


class Regions:
    """Counts chosen hosts by region, so that none gets more than the caps allow."""

    __slots__ = ("_ask", "_used", "total")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._used: Counter[int] | None = None if ask.caps.regions is None else Counter()
        self.total = 0

    def admit(self, region: int) -> bool:
        """Count one more host of the region, if the caps allow it."""
        if self._used is not None:
            if self._used[region] >= self._ask.caps.hosts_in(region, self._ask.cards):
                return False
            self._used[region] += 1
        self.total += 1
        return True


def find_free(cluster: Cluster, ask: Ask, *, spread: bool = False) -> list[Host] | None:
    """Return hosts where the task can start now, all of them or None; ties go to the lower host id."""
    pools = cluster.pools_of(ask.gpu_type, ask.region)
    if ask.host_num == 1 and ask.plain and not spread:
        return _best_fit(pools, ask.cards)
    filled = 0
    for pool in pools:
        filled |= pool.filled
    rooms = range(ask.cards, filled.bit_length())
    chosen: list[Host] = []
    regions = Regions(ask)
    for room in reversed(rooms) if spread else rooms:
        for host in _with_room(pools, room) if filled >> room & 1 else ():
            if ask.takes(host) and regions.admit(host.region):
                chosen.append(host)
                if len(chosen) == ask.host_num:
                    return chosen
    return None


def _best_fit(pools: list[Pool], cards: int) -> list[Host] | None:
    """Return the one host with the fewest free cards that has so many."""
    filled = 0
    for pool in pools:
        filled |= pool.filled
    rooms = filled >> cards
    if not rooms:
        return None
    room = cards + (rooms & -rooms).bit_length() - 1
    with_room = [(pool.buckets[room][0], pool.hosts) for pool in pools if pool.filled >> room & 1]
    host_id, hosts = with_room[0] if len(with_room) == 1 else min(with_room, key=itemgetter(0))
    return [hosts[host_id]]


def _with_room(pools: list[Pool], room: int) -> Iterator[Host]:
    """Give the hosts with exactly this room, in order of their ids."""
    filled = [pool for pool in pools if pool.filled >> room & 1]
    if len(filled) == 1:
        yield from map(filled[0].hosts.__getitem__, filled[0].buckets[room])
    elif filled:
        hosts = {pool.region: pool.hosts for pool in filled}
        tagged = ([(host_id, pool.region) for host_id in pool.buckets[room]] for pool in filled)
        for host_id, region in merge(*tagged):
            yield hosts[region][host_id]
