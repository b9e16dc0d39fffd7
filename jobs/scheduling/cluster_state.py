"""The working state of a pass: hosts and pools, who holds what, and the verbs on it."""

import dataclasses
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Literal

from jobs.scheduling.hosts import Host, Pool
from jobs.scheduling.quota import Ledger
from jobs.scheduling.types import Claim, HostCards, Running, Snapshot, Waiting


class Cluster:
    """All hosts, what runs on them, the claims on their cards and the quota use that follows."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.types: dict[int, dict[int, Host]] = {}  # type → host id → host
        self.pools: dict[int, dict[int, Pool]] = {}  # type → region → pool
        self.running: dict[int, Running] = {}
        self.claims: dict[int, Claim] = {}
        self.claim_owners: dict[int, int] = {}  # task → business, for the quota that a claim takes
        self.promoted: set[int] = set()  # running autos that this state turned high
        self.leaving: dict[int, float] = {}  # task that was told to stop → when
        self.keepers: set[int] = set()  # kept places
        self.autos: set[int] = set()  # running elastic tasks that turn high when quota frees
        self.draining: set[tuple[int, int]] = set()  # (type, host)
        self.offered_by_all: frozenset[str] | None = None  # kinds of instance that every host can run
        self.stuck: set[int] = set()  # leavers that should be long gone; their cards are not counted on

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Cluster":
        """Return the state that a snapshot describes, its claims apart."""
        cluster = cls(Ledger(snapshot.quotas, high_unlimited=snapshot.high_unlimited))
        for row in sorted(snapshot.hosts, key=attrgetter("host", "gpu_type")):
            cluster.add_host(row)
        for task in sorted(snapshot.running, key=attrgetter("id")):
            cluster.enrol(task)
        return cluster

    def take_apart(self) -> None:
        """Let go of everything: hosts and pools name each other, and only the collector would free them."""
        for hosts in self.types.values():
            for host in hosts.values():
                host.pool = None

    # Hosts

    def add_host(self, row: HostCards) -> Host:
        """Add the cards of one type on a host; they are offered where the host is ready."""
        host = Host(row)
        self.types.setdefault(row.gpu_type, {})[row.host] = host
        regions = self.pools.setdefault(row.gpu_type, {})
        pool = regions.get(row.region)
        if pool is None:
            pool = regions[row.region] = Pool(row.gpu_type, row.region)
        if row.state == "ready":
            pool.add(host)
        self._note_draining(host)
        self.offered_by_all = row.offers if self.offered_by_all is None else self.offered_by_all & row.offers
        return host

    def set_state(self, host: Host, state: str) -> None:
        """Offer the host, or stop offering it."""
        host.state = state  # type: ignore[assignment]  # one of HostState, from a checked source
        if host.pool is not None and state != "ready":
            host.pool.discard(host)
        elif host.pool is None and state == "ready":
            self.pools[host.gpu_type][host.region].add(host)
        self._note_draining(host)

    def resize(self, host: Host, total: int, number: int | None) -> None:
        """Change how many usable cards the host has; `number` is the free one that comes or goes."""
        host.total = total
        if number is not None and number in host.numbers:
            host.numbers.remove(number)
        elif number is not None:
            insort(host.numbers, number)
        host.update()

    def _note_draining(self, host: Host) -> None:
        if host.state == "draining":
            self.draining.add((host.gpu_type, host.id))
        else:
            self.draining.discard((host.gpu_type, host.id))

    def pools_of(self, gpu_type: int, region: int | None) -> list[Pool]:
        """Return the pools where a task may look for cards of the type."""
        regions = self.pools.get(gpu_type, {})
        if region is None:
            return list(regions.values())
        return [regions[region]] if region in regions else []

    # What runs

    def enrol(self, task: Running) -> None:
        """Count a task that holds cards; the cards themselves are not among the free ones any more."""
        self.running[task.id] = task
        hosts = self.types.get(task.gpu_type, {})
        high = task.task_class == "high"
        leaving = task.leaving_since is not None
        if task.keeping:
            self.keepers.add(task.id)
        if task.leaving_since is not None:
            self.leaving[task.id] = task.leaving_since
        elif task.wanted == "auto" and not high and not task.keeping:
            self.autos.add(task.id)
        for host_id, cards in task.hosts.items():
            host = hosts.get(host_id)
            if host is None:
                continue
            if task.time_limit is not None:
                host.limited.append(task)
            if leaving:
                host.coming += cards
                host.update()
            elif not high or task.keeping:
                host.victims.append(task)
                host.turnover += 1
                host.soft += cards
        if high or self.ledger.caps_elastic:
            self._count(task, 1, high=high)

    def _count(self, task: Running, sign: int, *, high: bool) -> None:
        """Count the task's cards in the ledger, the broken ones and those of hosts no longer listed too."""
        hosts = self.types.get(task.gpu_type, {})
        region = task.region
        rest = task.cards
        for host_id, cards in task.hosts.items():
            host = hosts.get(host_id)
            if host is not None:
                region = host.region
                rest -= cards
                self._count_in(task, region, sign * cards, high=high)
        if rest:
            self._count_in(task, -1 if region is None else region, sign * rest, high=high)

    def _count_in(self, task: Running, region: int, cards: int, *, high: bool) -> None:
        if high:
            self.ledger.add_high(task.business, task.gpu_type, region, cards)
        else:
            self.ledger.add_elastic(task.business, task.user, task.gpu_type, region, cards)

    def is_high(self, task: Running) -> bool:
        """Say whether the task is high now."""
        return task.task_class == "high" or task.id in self.promoted

    def start(
        self, task: Waiting, task_class: Literal["high", "elastic"], hosts: Iterable[Host], now: float
    ) -> dict[int, tuple[int, ...]]:
        """Give the task the lowest free cards on each of `hosts`; return their numbers by host id."""
        given: dict[int, tuple[int, ...]] = {}
        for host in hosts:
            given[host.id] = tuple(host.numbers[: task.host_gpu_num])
            del host.numbers[: task.host_gpu_num]
            host.update()
        self.enrol(
            Running(
                id=task.id,
                business=task.business,
                user=task.user,
                task_class=task_class,
                wanted=task.wanted,
                gpu_type=host.gpu_type,
                hosts=dict.fromkeys(given, task.host_gpu_num),
                cards=task.host_num * task.host_gpu_num,
                submitted=task.submitted,
                started=now,
                region=task.region,
                priority=task.priority,
                time_limit=task.time_limit,
                checkpoint_s=task.checkpoint_s,
                pull_up=task.pull_up,
                evictions=task.evictions,
            )
        )
        return given

    def leave(self, task: Running, now: float) -> None:
        """Note that the task was told to stop: its cards come free soon, and nobody can evict it any more."""
        self.leaving[task.id] = now
        self.autos.discard(task.id)
        for host, cards in self.hosts_of(task):
            if task in host.victims:
                host.victims.remove(task)
                host.turnover += 1
                host.soft -= cards
            host.coming += cards
            host.update()

    def begin(self) -> None:
        """Begin a pass: its rankings see only what changes from here on."""
        for regions in self.pools.values():
            for pool in regions.values():
                pool.changed.clear()

    def give_up_on(self, told_before: float) -> float:
        """Stop counting on the cards of those who were told to stop so long ago and are still there.

        Return when the next one was told, infinity where nobody else is leaving.
        """
        next_told = float("inf")
        for task_id, since in self.leaving.items():
            if task_id in self.stuck:
                continue
            if since > told_before:
                next_told = min(next_told, since)
                continue
            self.stuck.add(task_id)
            for host, cards in self.hosts_of(self.running[task_id]):
                host.coming -= cards
                host.update()
        return next_told

    def promote(self, task: Running) -> None:
        """Turn a running elastic task high, in place."""
        self.promoted.add(task.id)
        self.autos.discard(task.id)
        self._count(task, -1, high=False)
        self._count(task, 1, high=True)
        for host, cards in self.hosts_of(task):
            host.victims.remove(task)
            host.turnover += 1
            host.soft -= cards
            host.update()

    def gone(self, task: Running, numbers: Mapping[int, Iterable[int]]) -> None:
        """Take the task off its hosts; the cards of these numbers (host → numbers) are free again."""
        del self.running[task.id]
        self._count(task, -1, high=self.is_high(task))
        for host, cards in self.hosts_of(task):
            if task.time_limit is not None:
                host.limited.remove(task)
            if task in host.victims:
                host.victims.remove(task)
                host.turnover += 1
                host.soft -= cards
            elif task.id in self.leaving and task.id not in self.stuck:
                host.coming -= cards
            host.numbers = sorted([*host.numbers, *numbers.get(host.id, ())])
            host.update()
        self.leaving.pop(task.id, None)
        self.keepers.discard(task.id)
        self.autos.discard(task.id)
        self.promoted.discard(task.id)
        self.stuck.discard(task.id)

    def replace(self, old: Running, new: Running) -> None:
        """Let a running task go on with another number of cards that will come free."""
        leaving, promoted = self.leaving.get(old.id), old.id in self.promoted
        self.gone(old, {})
        task_class: Literal["high", "elastic"] = "high" if promoted else new.task_class
        self.enrol(dataclasses.replace(new, leaving_since=leaving, task_class=task_class))

    def hosts_of(self, task: Running) -> Iterator[tuple[Host, int]]:
        """Give the task's hosts with the cards that come free there when it is gone."""
        hosts = self.types.get(task.gpu_type, {})
        for host_id, cards in task.hosts.items():
            if host_id in hosts:
                yield hosts[host_id], cards

    # Claims

    def hold(self, claim: Claim, business: int) -> None:
        """Hold the claim's cards on its hosts, and the quota they will cost."""
        self.claims[claim.task] = claim
        self.claim_owners[claim.task] = business
        self._hold(claim, business, 1)

    def release(self, task_id: int) -> Claim:
        """Let go of a claim and return it."""
        claim = self.claims.pop(task_id)
        self._hold(claim, self.claim_owners.pop(task_id), -1)
        return claim

    def _hold(self, claim: Claim, business: int, sign: int) -> None:
        hosts = self.types.get(claim.gpu_type, {})
        for host_id, cards in claim.hosts.items():
            host = hosts.get(host_id)
            if host is None:
                continue
            host.held += sign * cards
            if claim.task_class == "high":
                self.ledger.add_high(business, claim.gpu_type, host.region, sign * cards)
            host.update()
