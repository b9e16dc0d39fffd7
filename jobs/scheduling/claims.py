"""Cards held for a task while its victims leave: kept, used or dropped at the start of each pass."""

from collections import Counter

from jobs.scheduling.hosts import Host
from jobs.scheduling.placement import find_free
from jobs.scheduling.serve import ask_for
from jobs.scheduling.types import Claim, Waiting
from jobs.scheduling.work import Work


def settle(work: Work, claims: list[Claim]) -> None:
    """Start the claimants whose cards are there, and drop the claims that can no longer come true.

    All claims are let go first and taken up again in the order they were made: so an older one counts its
    cards before a younger one on the same host.
    """
    for claim in sorted(claims, key=lambda claim: (claim.made_at, claim.task)):
        task = work.queue.tasks.get(claim.task)
        if task is None or task.id in work.queue.gated:
            continue  # it ended, or its owner holds it
        hosts = _usable(work, claim, task)
        since = claim.made_at if claim.last_term_at is None else claim.last_term_at
        lapses = since + work.policy.plan_lapse_s
        if hosts is None or work.now >= lapses:
            continue  # the task is tried anew, like any other
        if claim.task_class == "elastic" or not _start(work, claim, task, hosts):
            work.hold(claim, task.business)
            work.wake(lapses)


def settle_elastic(work: Work) -> None:
    """Start elastic claimants whose cards are there: after the high tasks, who might evict them at once."""
    for claim in [claim for claim in work.cluster.claims.values() if claim.task_class == "elastic"]:
        task = work.queue.tasks[claim.task]
        work.cluster.release(claim.task)
        work.misses.clear()  # cards that were held are free to be found again
        hosts = _usable(work, claim, task)
        if hosts is None or not _start(work, claim, task, hosts):
            work.hold(claim, task.business)
        else:
            work.wake_at = work.now  # a high task that waits may evict it, but not in the pass that starts it


def _usable(work: Work, claim: Claim, task: Waiting) -> list[Host] | None:
    """Return the claim's hosts, None where one cannot run the task any more or its cards will not come."""
    by_id = work.cluster.types.get(claim.gpu_type, {})
    found = []
    for host_id, cards in claim.hosts.items():
        host = by_id.get(host_id)
        if host is None or host.pool is None or host.soon < cards or task.needs not in host.offers:
            return None
        found.append(host)
    return found


def _start(work: Work, claim: Claim, task: Waiting, hosts: list[Host]) -> bool:
    """Start the claimant on its hosts where they are free, else elsewhere if other cards came free first."""
    ledger = work.cluster.ledger
    if claim.task_class == "high":
        caps = ledger.high_caps(task.business, claim.gpu_type)
    else:
        caps = ledger.elastic_caps(task.business, task.user, claim.gpu_type)
    if not caps.allows(task.region, task.host_num * task.host_gpu_num):
        return False
    chosen: list[Host] | None = hosts
    regions = Counter(host.region for host in hosts)  # quota of one may have been lowered since the plan
    within = all(n <= caps.hosts_in(region, task.host_gpu_num) for region, n in regions.items())
    if not within or any(host.room < cards for host, cards in zip(hosts, claim.hosts.values(), strict=True)):
        chosen = find_free(
            work.cluster, ask_for(work, task, claim.gpu_type, caps, frozenset(), claim.task_class)
        )
    if chosen is None:
        return False
    work.start(task, claim.task_class, chosen)
    return True
