"""Whom to evict for a task: rank the hosts, plan first, and give back every victim that can be spared."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.hosts import Host, Pool
from jobs.scheduling.placement import Ask, Regions
from jobs.scheduling.types import Policy, Running

Key = tuple[float, int]
Victim = tuple[Key, int, Running]  # its place, the cards that it frees on the host
Rank = tuple[bool, int, int, tuple[Key, ...], int]  # the last is the host's id
Judged = tuple[Rank, list[Running]]  # a host's rank, and whom it would take there
_Ranked = tuple[Rank, int, list[Running] | None]
STAGES = ("keeping", "victim", "guarantee")  # kept places alone, unprotected tasks too, protected ones too


@dataclass(frozen=True, slots=True)
class Preemption:
    """Hosts for the task once the victims, and all that leave already, are gone."""

    hosts: list[Host]
    victims: list[Running]


def is_protected(task: Running, now: float, policy: Policy) -> bool:
    """Say whether the task is evicted only where the guarantee needs it."""
    if task.keeping:
        return False
    if now - task.started < policy.min_run_s:
        return True
    return bool(task.evictions) and protected_until(task, now, policy) > now


def protected_until(task: Running, now: float, policy: Policy) -> float:
    """Return when the task may be evicted for less than the guarantee."""
    young = task.started + policy.min_run_s
    cap = policy.max_evictions_per_hour
    recent = sorted(at for at in task.evictions if at > now - 3600)
    if cap and len(recent) >= cap:
        return max(young, recent[-cap] + 3600)
    return young


def victim_key(task: Running, now: float, order: str) -> Key:
    """Return the sort key of a victim: kept places first (nothing is lost), then by `victim_order`."""
    if task.keeping:
        return (float("-inf"), task.id)
    seconds = now - task.started
    if order == "longest_slice":
        return (task.started, task.id)
    if order == "longest_run":
        return (-task.cards * seconds, task.id)
    if order == "least_lost_work" and task.checkpoint_s is not None:
        seconds = seconds % task.checkpoint_s if task.checkpoint_s else 0.0
    return (task.cards * seconds, task.id)


class Ranking:
    """Victims and hosts in the order in which they go, worked out once per pass and kept up to date."""

    def __init__(self, now: float, policy: Policy) -> None:
        self.now = now
        self.policy = policy
        self._victims: dict[str, dict[Host, tuple[int, list[Victim]]]] = defaultdict(dict)  # by stage
        self._heaps: dict[tuple[Pool, int, str], _HostHeap] = {}
        self._alone: dict[tuple[Host, int, str], tuple[int, Judged | None]] = {}

    def allows(self, task: Running, stage: str) -> bool:
        """Say whether the stage may evict the task."""
        if stage == "slice":
            return task.pull_up and not task.keeping and self.over_at(task) <= self.now
        if stage == "guarantee" or task.keeping:
            return True
        return stage == "victim" and not is_protected(task, self.now, self.policy)

    def over_at(self, task: Running) -> float:
        """Return when the time slice of an elastic task is over."""
        return max(task.started + self.policy.slice_s, protected_until(task, self.now, self.policy))

    def victims(self, host: Host, stage: str) -> list[Victim]:
        """Return whom the stage may evict on the host, the first to go first."""
        known = self._victims[stage].get(host)
        if known is not None and known[0] == host.turnover:
            return known[1]
        if stage == "guarantee":
            ranked = self._in_order(host, host.victims, self.policy.victim_order)
        elif stage == "slice":
            over = [task for task in host.victims if self.allows(task, stage)]
            ranked = self._in_order(host, over, "longest_slice")
        else:  # some of those whom the guarantee may evict, in the same order
            ranked = [victim for victim in self.victims(host, "guarantee") if self.allows(victim[2], stage)]
        self._victims[stage][host] = (host.turnover, ranked)
        return ranked

    def _in_order(self, host: Host, tasks: list[Running], order: str) -> list[Victim]:
        now, host_id = self.now, host.id
        ranked = [(victim_key(task, now, order), task.hosts[host_id], task) for task in tasks]
        if len(ranked) > 1:
            ranked.sort()
        return ranked

    def best(self, pool: Pool, cards: int, stage: str, barred: frozenset[int]) -> Judged | None:
        """Return the host of the pool that goes first for a task of one host, the barred ones apart."""
        heap = self._heaps.get((pool, cards, stage))
        if heap is None:
            heap = self._heaps[pool, cards, stage] = _HostHeap(self, pool, cards, stage)
        return heap.best(self, barred)

    def alone(self, host: Host, cards: int, stage: str) -> Judged | None:
        """Return the host's rank and its victims where nobody else is evicted for the task."""
        key = (host, cards, stage)
        known = self._alone.get(key)
        if known is None or known[0] != host.version:
            known = self._alone[key] = host.version, self.judge(host, cards, stage)
        return known[1]

    def judge(
        self, host: Host, cards: int, stage: str, freed: int = 0, taken: Iterable[Running] = ()
    ) -> Judged | None:
        """Return the host's rank and its further victims, None where they do not suffice.

        `taken` are evicted anyway and free `freed` of its cards. Hosts go as the product's rule says: not
        wholly filled by elastic tasks; fewest cards left free; fewest cards evicted, gangs counted whole; the
        victims' own order; id. On the host victims go in their order, and the unneeded are given back. Where
        time slices end, the host goes first whose last victim has run longest.
        """
        need = cards - host.soon - freed
        if need > host.soft:
            return None
        chosen: list[Victim] = []
        got = 0
        for victim in self.victims(host, stage):
            if got >= need:
                break
            if not taken or victim[2] not in taken:
                chosen.append(victim)
                got += victim[1]
        if got < need:
            return None
        for victim in reversed(chosen[:-1]):  # the last one was needed when it was chosen
            if got - victim[1] >= need:
                chosen.remove(victim)
                got -= victim[1]
        if stage == "slice":
            return (False, 0, 0, (chosen[-1][0],), host.id), [task for _, _, task in chosen]
        evicted = sum([task.cards for _, _, task in chosen])
        keys = tuple([key for key, _, _ in chosen])
        rank = (host.soft >= host.total, got - need, evicted, keys, host.id)
        return rank, [task for _, _, task in chosen]


class _HostHeap:
    """The hosts of a pool by rank for one size of task: judged only when they come to the top."""

    def __init__(self, ranking: Ranking, pool: Pool, cards: int, stage: str) -> None:
        self._pool = pool
        self._cards = cards
        self._stage = stage
        # A host's rank, the version of the host that it is of, and its victims: None while it is a lower bound.
        self._heap = self._bounds(ranking, pool.hosts.values())
        heapq.heapify(self._heap)
        self._seen = len(pool.changed)
        self._top: Judged | None = None  # what came first last time; it stands until cards change hands

    def _bounds(self, ranking: Ranking, hosts: Iterable[Host]) -> list[_Ranked]:
        """Return a lower bound of the rank of each host that may make room."""
        cards, stage, slices = self._cards, self._stage, self._stage == "slice"
        found: list[_Ranked] = []
        for host in hosts:
            need = cards - host.soon
            if 0 < need <= host.soft and host.pool is not None and (victims := ranking.victims(host, stage)):
                first = (False, 0, 0) if slices else (host.soft >= host.total, 0, need)
                found.append(((*first, (victims[0][0],), host.id), host.version, None))
        return found

    def best(self, ranking: Ranking, barred: frozenset[int]) -> Judged | None:
        """Return the host that goes first, with its victims, the barred ones apart."""
        changed, heap = self._pool.changed, self._heap
        if self._seen == len(changed) and self._top is not None and self._top[0][-1] not in barred:
            return self._top
        if self._seen < len(changed):
            for bound in self._bounds(ranking, set(changed[self._seen :])):
                heapq.heappush(heap, bound)
            self._seen = len(changed)
        aside: list[_Ranked] = []
        found = None
        while heap and found is None:
            rank, version, victims = heap[0]
            host_now = self._pool.hosts.get(rank[-1])
            if host_now is None or host_now.version != version:
                heapq.heappop(heap)  # an older word on a host that has changed: its newer one is there too
            elif rank[-1] in barred:
                aside.append(heapq.heappop(heap))
            elif victims is not None:
                found = rank, victims
            elif judged := ranking.alone(host_now, self._cards, self._stage):
                heapq.heapreplace(heap, (judged[0], version, judged[1]))
            else:
                heapq.heappop(heap)
        for item in aside:
            heapq.heappush(heap, item)
        self._top = None if aside else found
        return found


class Search:
    """The search for a gang's victims on one type, with what they would free."""

    def __init__(self, cluster: Cluster, ask: Ask, ranking: Ranking, stage: str) -> None:
        self.ask = ask
        self.ranking = ranking
        self.stage = stage
        self.by_id = cluster.types.get(ask.gpu_type, {})
        self.pools = cluster.pools_of(ask.gpu_type, ask.region)
        self.victims: list[Running] = []
        self.freed: Counter[int] = Counter()  # host id → cards of the victims there
        self.ready = {host.id: host for host in self._ready_hosts()}  # need no victim
        self.made: dict[int, Host] = {}  # fit once the victims are gone

    def accepts(self, host: Host) -> bool:
        """Say whether the task may use the host at all."""
        in_region = self.ask.region is None or host.region == self.ask.region
        return host.pool is not None and in_region and self.ask.takes(host)

    def fits(self, host: Host) -> bool:
        """Say whether the task's cards are there once victims and leavers are gone."""
        return host.id in self.ready or host.id in self.made

    def judge(self, host: Host) -> Judged | None:
        """Return the host's rank and the further victims it takes there, None where they do not suffice."""
        if not self.victims:
            return self.ranking.alone(host, self.ask.cards, self.stage)
        return self.ranking.judge(host, self.ask.cards, self.stage, self.freed[host.id], self.victims)

    def _ready_hosts(self) -> list[Host]:
        """Return the hosts that need no victim: free now, or once those that leave already are gone."""
        found = []
        for pool in self.pools:
            for room in range(self.ask.cards, len(pool.buckets)):
                found += [pool.hosts[i] for i in pool.buckets[room] if i not in pool.expecting]
            found += [pool.hosts[i] for i in pool.expecting if pool.hosts[i].soon >= self.ask.cards]
        return [host for host in found if self.accepts(host)]

    def rank_hosts(self) -> list[Rank]:
        """Return a heap of the hosts where victims would make the task fit."""
        heap = []
        for pool in self.pools:
            for host in pool.hosts.values():
                if host.soon < self.ask.cards <= host.soon + host.soft and self.accepts(host):
                    judged = self.judge(host)
                    if judged is not None:
                        heap.append(judged[0])
        heapq.heapify(heap)
        return heap

    def add(self, victims: Iterable[Running]) -> set[int]:
        """Count victims in; return the hosts where cards come free."""
        touched: set[int] = set()
        for task in victims:
            self.victims.append(task)
            self.freed.update(task.hosts)
            touched.update(task.hosts)
        self._note_made(touched)
        return touched

    def _note_made(self, touched: Iterable[int]) -> None:
        """Note which of the hosts fit now, by what the victims free there."""
        for host_id in touched:
            host = self.by_id.get(host_id)
            if host is None or host_id in self.ready or not self.accepts(host):
                continue
            if host.soon + self.freed[host_id] >= self.ask.cards:
                self.made[host_id] = host
            else:
                self.made.pop(host_id, None)

    def enough(self) -> list[Host] | None:
        """Return the hosts to use, best fit, if the victims so far make enough of them fit."""
        if len(self.ready) + len(self.made) < self.ask.host_num:
            return None
        regions = Regions(self.ask)
        useful = [*self.ready.values(), *self.made.values()]
        by_fit = sorted(useful, key=lambda h: (h.soon + self.freed[h.id], h.id))
        chosen = [host for host in by_fit if regions.admit(host.region)][: self.ask.host_num]
        return chosen if len(chosen) == self.ask.host_num else None

    def spare(self) -> Preemption | None:
        """Give back, last chosen first, every victim without whom the task fits as well."""
        for task in reversed(self.victims.copy()):
            self.freed.subtract(task.hosts)
            self._note_made(task.hosts)
            if self.enough() is None:
                self.freed.update(task.hosts)
                self._note_made(task.hosts)
            else:
                self.victims.remove(task)
        hosts = self.enough()
        return Preemption(hosts, self.victims) if hosts else None


def is_coming(cluster: Cluster, ask: Ask, ranking: Ranking) -> bool:
    """Say whether enough cards are free or coming free, for whomever."""
    return Search(cluster, ask, ranking, "").enough() is not None


def find_leaving(cluster: Cluster, ask: Ask, ranking: Ranking) -> Preemption | None:
    """Plan a start on free cards and on those of tasks that leave already, without any further victim."""
    pools = cluster.pools_of(ask.gpu_type, ask.region)
    if not any(pool.hosts[i].soon >= ask.cards for pool in pools for i in pool.expecting):
        return None
    search = Search(cluster, ask, ranking, "")
    hosts = search.enough()
    return Preemption(hosts, []) if hosts else None


def find_victims(cluster: Cluster, ask: Ask, ranking: Ranking, stage: str) -> Preemption | None:
    """Plan a start on free cards, leaving cards and those of the stage's victims, if it can fit."""
    if ask.host_num == 1 and ask.accepts is None and ask.caps.regions is None:
        best = _first_host(cluster, ask, ranking, stage)
        if best is None or all(len(task.hosts) == 1 for task in best.victims):
            return best
    return _find_for_gang(Search(cluster, ask, ranking, stage))


def _first_host(cluster: Cluster, ask: Ask, ranking: Ranking, stage: str) -> Preemption | None:
    """Return the host that goes first for a task of one host, with its victims there."""
    pools = cluster.pools_of(ask.gpu_type, ask.region)
    tops = [ranking.best(pool, ask.cards, stage, ask.barred) for pool in pools]
    best = min((top for top in tops if top is not None), key=lambda top: top[0], default=None)
    return Preemption([cluster.types[ask.gpu_type][best[0][-1]]], best[1]) if best else None


def find_beside(
    cluster: Cluster, ask: Ask, ranking: Ranking, stage: str, going: list[Running]
) -> Preemption | None:
    """Plan a start beside the end of `going`, who leave in any case; the victims are whoever goes besides."""
    search = Search(cluster, ask, ranking, stage)
    search.add(going)
    found = _find_for_gang(search)
    return Preemption(found.hosts, [*going, *(v for v in found.victims if v not in going)]) if found else None


def _find_for_gang(search: Search) -> Preemption | None:
    """Take hosts by rank until enough of them fit; those that need no victim go before all."""
    heap = search.rank_hosts()
    while search.enough() is None:
        if not heap:
            return None
        rank = heapq.heappop(heap)
        host = search.by_id[rank[-1]]
        judged = search.judge(host)
        if search.fits(host) or judged is None:
            continue
        if judged[0] != rank:  # victims chosen for another host changed it
            heapq.heappush(heap, judged[0])
            continue
        for other_id in search.add(judged[1]) - {host.id}:
            other = search.by_id.get(other_id)
            judged = search.judge(other) if other is not None and search.accepts(other) else None
            if judged is not None:
                heapq.heappush(heap, judged[0])
    return search.spare()


def find_over_slice(
    cluster: Cluster, ask: Ask, ranking: Ranking, runners: Callable[[], Iterable[Running]]
) -> Preemption | None:
    """Plan a start by ending time slices: the longest runners first, as few of them as it takes."""
    if ask.host_num == 1 and ask.accepts is None and ask.caps.regions is None:
        best = _first_host(cluster, ask, ranking, "slice")
        if best is None or all(len(task.hosts) == 1 for task in best.victims):
            return best
    search = Search(cluster, ask, ranking, "slice")
    for task in runners():
        hosts = [search.by_id.get(host_id) for host_id in task.hosts]
        if task.gpu_type == ask.gpu_type and any(host and search.accepts(host) for host in hosts):
            search.add([task])
            if search.enough() is not None:
                return search.spare()
    return None
