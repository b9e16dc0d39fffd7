"""Cards kept for later: hosts bound by operators' reservations, and hosts gathered for the head of a line."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.scheduling.cluster_state import Cluster, Host
from jobs.scheduling.order import Phase
from jobs.scheduling.placement import avoided
from jobs.scheduling.types import Reservation, Running, Waiting

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Binding:
    """The hosts where the head of a line can start soonest, and when."""

    task: int
    hosts: frozenset[int]
    at: float  # NEVER: some runner there has no time limit


def ends_at(task: Running, now: float) -> float:
    """Return when a running task is gone at the latest."""
    if task.time_limit is None:
        return NEVER
    return max(now, task.started + task.time_limit)


def soonest(cluster: Cluster, task: Waiting, phase: Phase, now: float, bound: "Bound") -> Binding | None:
    """Return the hosts where the task can start first of all its types; None where it never can.

    A runner without a time limit never ends for this estimate, an elastic one makes room for a high task at
    once. Among hosts that never come free those with the fewest such cards are gathered. Hosts that operators
    reserved for others are none of the head's.
    """
    best: tuple[tuple[float, int, int], Binding] | None = None
    passed_over = avoided(cluster, task)
    for position, gpu_type in enumerate(task.gpu_types):
        hosts = [host for pool in cluster.pools_of(gpu_type, task.region) for host in pool.hosts.values()]
        judged = [
            (*_wait_for(cluster, host, task.host_gpu_num, phase, now), host.id)
            for host in hosts
            if host.id not in passed_over and _may_ever_hold(host, task, phase, now, bound)
        ]
        if len(judged) < task.host_num:
            continue
        chosen = heapq.nsmallest(task.host_num, judged)
        at, stuck = chosen[-1][0], sum(cards for _, cards, _ in chosen)
        key = (at, stuck, position)
        if best is None or key < best[0]:
            best = key, Binding(task.id, frozenset(host_id for _, _, host_id in chosen), at)
    return best[1] if best else None


def _may_ever_hold(host: Host, task: Waiting, phase: Phase, now: float, bound: "Bound") -> bool:
    if host.total < task.host_gpu_num or task.needs not in host.offers:
        return False
    if not bound or phase != "high":
        return True
    ends = NEVER if task.time_limit is None else now + task.time_limit
    return host.total - withheld(bound, host, task.business, ends) >= task.host_gpu_num


def _wait_for(cluster: Cluster, host: Host, cards: int, phase: Phase, now: float) -> tuple[float, int]:
    """Return when the host has so many cards free, and how many never come free by themselves."""
    have = max(0, host.soon) + (host.soft if phase == "high" else 0)
    if not host.limited:
        return (now if have >= cards else NEVER), host.total - have
    ends = [
        (ends_at(runner, now), runner.hosts[host.id])
        for runner in host.limited
        if runner.id not in cluster.leaving and not (phase == "high" and runner in host.victims)
    ]
    endless = host.total - have - sum(freed for _, freed in ends)
    for end, freed in [(now, 0), *sorted(ends)]:
        have += freed
        if have >= cards:
            return end, endless
    return NEVER, endless


Bound = Mapping[tuple[int, int], list[tuple[Reservation, int]]]  # (type, host) → cards bound for each


def bind(cluster: Cluster, reservations: Iterable[Reservation], now: float) -> Bound:
    """Choose the hosts whose cards the reservations keep from other businesses' high tasks.

    What the business itself holds with high tasks counts as had already. The hosts with the fewest cards of
    others that stay are bound first, so that the choice stands from pass to pass.
    """
    claims = _claimed(cluster)
    bound: dict[tuple[int, int], list[tuple[Reservation, int]]] = defaultdict(list)
    taken: Counter[tuple[int, int]] = Counter()
    for reservation in sorted(reservations, key=lambda r: r.id):
        if reservation.end <= now:
            continue
        candidates = []
        missing = reservation.cards
        for pool in cluster.pools_of(reservation.gpu_type, reservation.region):
            for host in pool.hosts.values():
                ours, others = _staying(cluster, host, reservation, now)
                for business, cards in claims[reservation.gpu_type, host.id]:
                    ours += cards if business == reservation.business else 0
                    others += cards if business != reservation.business else 0
                missing -= ours
                candidates.append((others, host.id, host.total - ours - others))
        for _, host_id, cards in sorted(candidates):
            key = (reservation.gpu_type, host_id)
            cards = min(cards - taken[key], missing)
            if cards > 0:
                bound[key].append((reservation, cards))
                taken[key] += cards
                missing -= cards
    return bound


def _claimed(cluster: Cluster) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return what high claims hold: (type, host) → (business, cards)."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for task_id, claim in cluster.claims.items():
        if claim.task_class == "high":
            for host_id, cards in claim.hosts.items():
                found[claim.gpu_type, host_id].append((cluster.claim_owners[task_id], cards))
    return found


def _staying(cluster: Cluster, host: Host, reservation: Reservation, now: float) -> tuple[int, int]:
    """Return the cards of high tasks that still run when the window opens: (the business's, others')."""
    ours = others = 0
    for runner in host.runners:
        if cluster.is_high(runner) and ends_at(runner, now) > max(now, reservation.start):
            if runner.business == reservation.business:
                ours += runner.hosts[host.id]
            else:
                others += runner.hosts[host.id]
    return ours, others


def withheld(bound: Bound, host: Host, business: int, ends: float) -> int:
    """Return the cards of the host that a high task of the business, gone at `ends`, must leave to others."""
    kept = bound.get((host.gpu_type, host.id), ())
    return sum(cards for row, cards in kept if row.business != business and row.start < ends)
