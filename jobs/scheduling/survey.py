"""Count the hosts that a waiting task could think of, by why each of them takes it now or does not."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.hosts import Host
from jobs.scheduling.placement import avoided
from jobs.scheduling.types import Waiting

Why = Literal[
    "free",  # it has enough free cards
    "soft",  # it would have, were its elastic tasks and kept places gone
    "held",  # it has, but some of them are held for other tasks
    "busy",  # its cards are in use
    "small",  # it has not so many cards
    "offers",  # it cannot run this kind of instance
    "avoided",  # the task failed on it at once
    "region",  # it stands in another region
    "cordoned",
    "draining",
    "quarantined",
    "lost",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Hosts that are alike for a task."""

    why: Why
    hosts: int
    free: int  # cards on them that are free for anyone now
    most: int  # … and the most of these on one host


def survey(cluster: Cluster, task: Waiting) -> tuple[Seen, ...]:
    """Return the hosts that have a type of the task's, counted by why, in the order of `Why`'s words.

    A host with two such types counts as two. Claims must be held in the cluster already.
    """
    hosts: Counter[Why] = Counter()
    free: Counter[Why] = Counter()
    most: dict[Why, int] = {}
    passed_over = avoided(cluster, task)
    for host in _hosts(cluster, task):
        why = _why(host, task, passed_over)
        hosts[why] += 1
        free[why] += host.room
        most[why] = max(most.get(why, 0), host.room)
    words = sorted(hosts, key=Why.__args__.index)  # type: ignore[attr-defined]  # a Literal has them
    return tuple(Seen(why=why, hosts=hosts[why], free=free[why], most=most[why]) for why in words)


def _hosts(cluster: Cluster, task: Waiting) -> Iterator[Host]:
    for gpu_type in task.gpu_types:
        yield from cluster.types.get(gpu_type, {}).values()


def _why(host: Host, task: Waiting, passed_over: frozenset[int]) -> Why:
    """Return the first that holds: what no waiting helps against stands before what time may change."""
    need = task.host_gpu_num
    if task.region is not None and host.region != task.region:
        return "region"
    if host.state != "ready":
        return host.state if host.state != "removed" else "lost"
    if task.needs not in host.offers:
        return "offers"
    if host.total < need:
        return "small"
    if host.id in passed_over:
        return "avoided"
    if host.room >= need:
        return "free"
    if len(host.numbers) >= need:
        return "held"
    return "soft" if host.room + host.soft >= need else "busy"
