"""Cards kept for later: hosts bound by operators' reservations, and hosts gathered for the head of a line."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.scheduling.cluster_state import Cluster, Host
from jobs.scheduling.order import Phase
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
    ends = NEVER if task.time_limit is None else now + task.time_limit
    best: tuple[tuple[float, int, int], Binding] | None = None
    for position, gpu_type in enumerate(task.gpu_types):
        judged = []
        for pool in cluster.pools_of(gpu_type, task.region):
            for host in pool.hosts.values():
                left = withheld(bound, host, task.business, ends) if phase == "high" else 0
                if (
                    host.total - left >= task.host_gpu_num
                    and host.id not in task.avoid
                    and task.needs in host.offers
                ):
                    judged.append((*_wait_for(cluster, host, task.host_gpu_num, phase, now), host.id))
        judged.sort()
        chosen = judged[: task.host_num]
        if len(chosen) < task.host_num:
            continue
        at, stuck = chosen[-1][0], sum(cards for _, cards, _ in chosen)
        key = (at, stuck, position)
        if best is None or key < best[0]:
            best = key, Binding(task.id, frozenset(host_id for _, _, host_id in chosen), at)
    return best[1] if best else None


def _wait_for(cluster: Cluster, host: Host, cards: int, phase: Phase, now: float) -> tuple[float, int]:
    """Return when the host has so many cards free, and how many never come free by themselves."""
    have = host.room
    ends: list[tuple[float, int]] = []
    for runner in host.runners:
        evictable = phase == "high" and not cluster.is_high(runner)
        end = now if evictable or runner.id in cluster.leaving else ends_at(runner, now)
        if end < NEVER:
            ends.append((end, runner.hosts[host.id]))
    endless = host.total - have - sum(taken for _, taken in ends)
    if have >= cards:
        return now, endless
    for end, freed in sorted(ends):
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
