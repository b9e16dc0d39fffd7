"""Cards kept for later: hosts bound by operators' reservations, and hosts gathered for the head of a line."""

import heapq
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.groups import Phase
from jobs.scheduling.hosts import Host, Pool
from jobs.scheduling.placement import avoided
from jobs.scheduling.types import NEVER, Reservation, Running, Waiting


@dataclass(frozen=True, slots=True)
class Binding:
    """The hosts where the head of a line can start soonest, and when."""

    hosts: frozenset[int]
    at: float  # NEVER: some runner there has no time limit


def ends_at(task: Running, now: float) -> float:
    """Return when a running task is gone at the latest."""
    if task.time_limit is None:
        return NEVER
    return max(now, task.started + task.time_limit)


Ends = Sequence[tuple[float, int]]  # when cards of a host come free by themselves, and how many, in order
Judged = list[tuple[float, int, int]]  # when a host has the cards, how many there never come free, its id


class Gathering:
    """Finds the hosts where the head of a line can start first.

    A runner without a time limit never ends for this estimate, an elastic one makes room for a high task at
    once. Among hosts that never come free those with the fewest such cards are gathered. Hosts that operators
    reserved for others are none of the head's.
    """

    def __init__(self, cluster: Cluster, now: float) -> None:
        self._cluster = cluster
        self._now = now
        self._ends: dict[tuple[Host, Phase], tuple[int, Ends]] = {}
        self._judged: dict[tuple[Pool, int, Phase], tuple[int, Judged]] = {}

    def soonest(self, task: Waiting, phase: Phase, bound: "Bound") -> Binding | None:
        """Return the hosts where the task can start first of all its types; None where it never can."""
        best: tuple[tuple[float, int, int], Binding] | None = None
        cluster = self._cluster
        passed_over = avoided(cluster, task)
        plain = not passed_over and not bound and task.needs in (cluster.offered_by_all or ())
        for position, gpu_type in enumerate(task.gpu_types):
            judged: Judged = []
            for pool in cluster.pools_of(gpu_type, task.region):
                if plain:
                    judged += self._best_of(pool, task, phase)
                    continue
                hosts = (host for host in pool.hosts.values() if host.id not in passed_over)
                fitting = (host for host in hosts if _may_ever_hold(host, task, phase, self._now, bound))
                judged += self._judge(fitting, task.host_gpu_num, phase)
            if len(judged) < task.host_num:
                continue
            chosen = heapq.nsmallest(task.host_num, judged)
            at, stuck = chosen[-1][0], sum(cards for _, cards, _ in chosen)
            key = (at, stuck, position)
            if best is None or key < best[0]:
                best = key, Binding(frozenset(host_id for _, _, host_id in chosen), at)
        return best[1] if best else None

    def _best_of(self, pool: Pool, task: Waiting, phase: Phase) -> Judged:
        """Return the pool's hosts that come first for a task of this size; known until its cards change hands."""
        key = (pool, task.host_gpu_num, phase)
        known = self._judged.get(key)
        if known is None or known[0] != len(pool.changed):
            hosts = (host for host in pool.hosts.values() if host.total >= task.host_gpu_num)
            judged = self._judge(hosts, task.host_gpu_num, phase)
            judged.sort()
            known = self._judged[key] = len(pool.changed), judged
        return known[1][: task.host_num]

    def _judge(self, hosts: Iterable[Host], cards: int, phase: Phase) -> Judged:
        return [
            _wait_for(host, cards, phase, self._now, self._ends_of(host, phase) if host.limited else ())
            for host in hosts
        ]

    def _ends_of(self, host: Host, phase: Phase) -> Ends:
        """Return when runners of the host are gone at the latest, but for those whom a high task would evict."""
        known = self._ends.get((host, phase))
        if known is not None and known[0] == host.version:
            return known[1]
        leaving, spared = self._cluster.leaving, host.victims if phase == "high" else ()
        ends = sorted(
            (ends_at(runner, self._now), runner.hosts[host.id])
            for runner in host.limited
            if runner.id not in leaving and runner not in spared
        )
        self._ends[host, phase] = host.version, ends
        return ends


def _may_ever_hold(host: Host, task: Waiting, phase: Phase, now: float, bound: "Bound") -> bool:
    if host.total < task.host_gpu_num or task.needs not in host.offers:
        return False
    if not bound or phase != "high":
        return True
    ends = NEVER if task.time_limit is None else now + task.time_limit
    return host.total - withheld(bound, host, task.business, ends) >= task.host_gpu_num


def _wait_for(host: Host, cards: int, phase: Phase, now: float, ends: Ends) -> tuple[float, int, int]:
    """Return when the host has so many cards free, how many never come free by themselves, and its id."""
    have = host.soon if host.soon > 0 else 0
    if phase == "high":
        have += host.soft
    endless = host.total - have
    at = now if have >= cards else NEVER
    for end, freed in ends:
        endless -= freed
        have += freed
        if at == NEVER and have >= cards:
            at = end
    return at, endless, host.id


Bound = Mapping[tuple[int, int], list[tuple[Reservation, int]]]  # (type, host) → cards bound for each


class _Ground:
    """The hosts that a reservation may bind, and what of their cards stays with high tasks when it opens."""

    def __init__(self, cluster: Cluster, row: Reservation, now: float) -> None:
        self.row = row
        self.opens = max(now, row.start)
        self.missing = row.cards  # what the business itself holds counts as had already
        self.left: dict[int, int] = {}  # host → cards that are nobody's by then
        self.others: dict[int, int] = {}  # host → cards that other businesses hold by then
        for pool in cluster.pools_of(row.gpu_type, row.region):
            for host in pool.hosts.values():
                self.left[host.id] = host.total
                self.others[host.id] = 0
        # (cards of others, host), the first to be bound first; made when first needed
        self.order: list[tuple[int, int]] | None = None

    def count(self, business: int, hosts: Mapping[int, int], ends: float) -> None:
        """Count the cards that a high task of the business holds until `ends`."""
        if ends <= self.opens:
            return
        for host, cards in hosts.items():
            if host not in self.left:
                continue
            self.left[host] -= cards
            if business == self.row.business:
                self.missing -= cards
                continue
            if self.order is not None:
                del self.order[bisect_left(self.order, (self.others[host], host))]
                insort(self.order, (self.others[host] + cards, host))
            self.others[host] += cards

    def bind(self, taken: Counter[int]) -> Iterator[tuple[int, int]]:
        """Give (host, cards) until the reservation has its cards; `taken` is what others bound there."""
        if self.order is None:
            self.order = sorted((others, host) for host, others in self.others.items())
        missing = self.missing
        for _, host in self.order:
            if missing <= 0:
                break
            cards = min(self.left[host] - taken[host], missing)
            if cards > 0:
                missing -= cards
                yield host, cards


class Binder:
    """Chooses the hosts whose cards reservations keep from other businesses' high tasks.

    The hosts with the fewest cards of others that stay are bound first, so that the choice stands from pass
    to pass; it is made anew only for types where a high task began to hold cards.
    """

    def __init__(self, cluster: Cluster, reservations: Iterable[Reservation], now: float) -> None:
        open_ones = sorted((row for row in reservations if row.end > now), key=lambda row: row.id)
        self._grounds: dict[int, list[_Ground]] = defaultdict(list)  # type → in order of their ids
        for row in open_ones:
            self._grounds[row.gpu_type].append(_Ground(cluster, row, now))
        self._bound: dict[tuple[int, int], list[tuple[Reservation, int]]] = {}
        self._stale = set(self._grounds)
        for task in cluster.running.values():
            if task.gpu_type in self._grounds and cluster.is_high(task):
                self.count(task.business, task.gpu_type, task.hosts, ends_at(task, now))

    def count(self, business: int, gpu_type: int, hosts: Mapping[int, int], ends: float) -> None:
        """Count the cards that a high task, or a claim for one, holds from now on until `ends`."""
        for ground in self._grounds.get(gpu_type, ()):
            ground.count(business, hosts, ends)
            self._stale.add(gpu_type)

    @property
    def bound(self) -> Bound:
        """Return the bound cards, as things stand."""
        for gpu_type in self._stale:
            for key in [key for key in self._bound if key[0] == gpu_type]:
                del self._bound[key]
            taken: Counter[int] = Counter()
            for ground in self._grounds[gpu_type]:
                for host, cards in ground.bind(taken):
                    self._bound.setdefault((gpu_type, host), []).append((ground.row, cards))
                    taken[host] += cards
        self._stale.clear()
        return self._bound


def withheld(bound: Bound, host: Host, business: int, ends: float) -> int:
    """Return the cards of the host that a high task of the business, gone at `ends`, must leave to others."""
    kept = bound.get((host.gpu_type, host.id), ())
    return sum(cards for row, cards in kept if row.business != business and row.start < ends)
