"""Try waiting tasks one after the other: where does it start, whom does it evict, or why does it wait."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from jobs.scheduling.cluster_state import Host
from jobs.scheduling.order import Group, Walk, waits_since
from jobs.scheduling.placement import Ask, find_free
from jobs.scheduling.preemption import (
    STAGES,
    Preemption,
    find_leaving,
    find_over_slice,
    find_victims,
    protected_until,
)
from jobs.scheduling.quota import Caps
from jobs.scheduling.reservation import NEVER, ends_at, withheld
from jobs.scheduling.types import Running, Waiting
from jobs.scheduling.work import Cause, LineState, Work

Try = Callable[[Work, Group, Waiting], Cause | None]  # None: it starts, or makes room for itself


class AnyWalk(Protocol):
    """A way through the groups."""

    def peek(self) -> tuple[Group, int] | None:
        """Return whose turn it is."""

    def step(self) -> None:
        """Go on to the next task."""

    def drop(self) -> None:
        """Leave out the rest of the group."""


def serve(work: Work, walk: AnyWalk, attempt: Try) -> None:
    """Give every task of the walk its verdict."""
    while walk.peek() is not None:
        serve_one(work, walk, attempt)


def serve_one(work: Work, walk: AnyWalk, attempt: Try) -> None:
    """Give the task whose turn it is its verdict, or the rest of its group where all of it waits."""
    turn = walk.peek()
    if turn is None:
        return
    group, position = turn
    task = group.entries[position][3]
    if task.id in work.started or task.id in work.cluster.claims:
        walk.step()
        return
    cause = attempt(work, group, task)
    if cause is None:
        walk.step()
    elif cause.whole:
        work.waiting_groups.append((group, position, cause))
        walk.drop()
    else:
        work.waiting_tasks[task.id] = (group, cause)
        walk.step()


def try_high(work: Work, group: Group, task: Waiting) -> Cause | None:
    """Start a high task inside its quota, or plan whom to evict for it."""
    line = work.line_of(group)
    if line.stopped and line.head is not None:
        return Cause("behind", line.head.id)
    caps = high_types(work, task)
    if not caps:
        return Cause("quota")
    cause = _place_high(work, group, task, caps)
    return _note_head(work, line, task, cause) if cause else None


def try_auto(work: Work, group: Group, task: Waiting) -> Cause | None:
    """Try an auto task as a high one, on quota that no high task waits for; else it may run elastic."""
    caps = high_types(work, task, wanted_by_high(work))
    return _place_high(work, group, task, caps) if caps else Cause("quota")


def high_types(
    work: Work, task: Waiting, spared: Mapping[tuple[int, int], int] = MappingProxyType({})
) -> list[tuple[int, Caps]]:
    """Return the task's types where its business has quota left for it, and for those it is spared for."""
    cards = task.host_num * task.host_gpu_num
    found = []
    for gpu_type in work.types_of(task):
        caps = work.cluster.ledger.high_caps(task.business, gpu_type)
        total = cards + spared.get((task.business, gpu_type), 0)
        if total <= caps.total and caps.allows(task.region, cards):
            found.append((gpu_type, caps))
    return found


def wanted_by_high(work: Work) -> dict[tuple[int, int], int]:
    """Return the cards that waiting high tasks will take of their business's quota, by (business, type)."""
    if work.wanted is None:
        work.wanted = defaultdict(int)
        rest = [(g, e[3]) for g, position, _ in work.waiting_groups for e in g.entries[position:]]
        rest += [(group, work.queue.tasks[task_id]) for task_id, (group, _) in work.waiting_tasks.items()]
        for group, task in rest:
            if group.phase != "high" or task.id in work.started or task.id in work.cluster.claims:
                continue
            cards = task.host_num * task.host_gpu_num
            for gpu_type in task.gpu_types:
                if cards <= work.cluster.ledger.high_use(task.business, gpu_type)[1]:
                    work.wanted[task.business, gpu_type] += cards
    return work.wanted


def serve_autos(work: Work, walk: Walk) -> None:
    """Turn running autos high and try waiting ones as high, all of them by first submission."""
    running = [
        work.cluster.running[task_id] for task_id in work.cluster.autos if task_id not in work.cluster.leaving
    ]
    running.sort(key=lambda task: (task.submitted, task.id), reverse=True)
    while (turn := walk.peek()) is not None:
        group, position = turn
        _promote_before(work, running, group.entries[position][:3])
        serve_one(work, walk, try_auto)
    _promote_before(work, running, (float("inf"), 0, 0))


def _promote_before(work: Work, running: list[Running], place: tuple[float, float, int]) -> None:
    while running and (running[-1].submitted, running[-1].id) < place:
        task = running.pop()
        if _may_promote(work, task):
            work.promote(task)


def _may_promote(work: Work, task: Running) -> bool:
    caps = work.cluster.ledger.high_caps(task.business, task.gpu_type)
    if (
        caps.total < task.cards
        or task.cards + wanted_by_high(work)[task.business, task.gpu_type] > caps.total
    ):
        return False
    ends = ends_at(task, work.now)
    regions: Counter[int] = Counter()
    for host, cards in work.cluster.hosts_of(task):
        regions[host.region] += cards
        left = withheld(work.bound, host, task.business, ends) if work.bound else 0
        if left and host.soon + host.soft - cards < left:
            return False
    return all(caps.allows(region, cards) for region, cards in regions.items())


def _place_high(work: Work, group: Group, task: Waiting, caps: list[tuple[int, Caps]]) -> Cause | None:
    kept = work.kept_hosts(group, task)
    private = (task.business, task.time_limit) if work.bound or any(c.regions for _, c in caps) else None
    shape = ("high", group.shape, tuple(gpu_type for gpu_type, _ in caps), private)
    whole = not group.limited
    if (shape, frozenset()) in work.failed:
        return Cause("no_room", whole=private is None or whole)
    if (shape, kept) in work.failed:
        return Cause("kept_for_head", work.line_of(group).head.id, whole)  # type: ignore[union-attr]  # kept for it
    asks = [ask_for(work, task, gpu_type, cap, kept) for gpu_type, cap in caps]
    for ask in asks:
        hosts = find_free(work.cluster, ask, spread=work.policy.placement == "spread")
        if hosts is not None:
            work.start(task, "high", hosts)
            return None
    delayed_until = waits_since(task) + work.policy.evict_delay_s
    found = _preempt(work, asks, may_evict=work.now >= delayed_until)
    if found is not None:
        work.claim(task, "high", found, "victim")
        return None
    if work.now < delayed_until:
        work.wake(delayed_until)
        return Cause("evict_delay", delayed_until, whole=False)
    work.failed.add((shape, kept))
    if kept:
        return Cause("kept_for_head", work.line_of(group).head.id, whole)  # type: ignore[union-attr]  # kept for it
    return Cause("no_room", whole=private is None or whole)


def ask_for(work: Work, task: Waiting, gpu_type: int, caps: Caps, kept: frozenset[int]) -> Ask:
    """Return what to look for on one type, and which hosts to pass over."""
    bound = work.bound
    anywhere = task.needs in (work.cluster.offered_by_all or ()) and not task.avoid and not kept
    if anywhere and not bound:
        return Ask(gpu_type, task.region, task.host_num, task.host_gpu_num, caps)
    ends = NEVER if task.time_limit is None else work.now + task.time_limit

    def accepts(host: Host) -> bool:
        if task.needs not in host.offers or host.id in task.avoid or host.id in kept:
            return False
        left = withheld(bound, host, task.business, ends) if bound else 0
        return not left or host.soon + host.soft - left >= task.host_gpu_num

    return Ask(gpu_type, task.region, task.host_num, task.host_gpu_num, caps, accepts)


def _preempt(work: Work, asks: list[Ask], *, may_evict: bool) -> Preemption | None:
    """Return the mildest way to make room on a type: leavers, kept places, elastic, protected elastic."""
    for ask in asks:
        found = find_leaving(work.cluster, ask, work.ranking)
        if found is not None:
            return found
    if not may_evict:
        return None
    for stage in STAGES if work.cluster.keepers else STAGES[1:]:
        for ask in asks:
            found = find_victims(work.cluster, ask, work.ranking, stage)
            if found is not None:
                return found
    return None


def _note_head(work: Work, line: LineState, task: Waiting, cause: Cause) -> Cause:
    """Let the first task that cannot start stop its line, or have hosts kept for it, as the policy says."""
    if line.head is None:
        line.head = task
        if work.policy.head_of_line == "strict":
            line.stopped = True
        elif work.policy.head_of_line == "reserve":
            ripe = waits_since(task) + work.policy.reserve_after_s
            line.reserves = work.now >= ripe
            work.wake(ripe)
    return cause


def try_elastic(work: Work, group: Group, task: Waiting) -> Cause | None:
    """Start an elastic task on free cards within its caps, or end time slices for it."""
    line = work.line_of(group)
    if line.stopped and line.head is not None:
        return Cause("behind", line.head.id)
    cards = task.host_num * task.host_gpu_num
    ledger = work.cluster.ledger
    caps = [
        (gpu_type, ledger.elastic_caps(task.business, task.user, gpu_type))
        for gpu_type in work.types_of(task)
    ]
    caps = [(gpu_type, cap) for gpu_type, cap in caps if cap.allows(task.region, cards)]
    if not caps:
        return Cause("elastic_cap")
    kept = work.kept_hosts(group, task)
    private = (task.business, task.user) if any(c.regions for _, c in caps) else None
    shape = ("elastic", group.shape, tuple(gpu_type for gpu_type, _ in caps), private)
    if (shape, frozenset()) in work.failed:
        return _note_head(work, line, task, Cause("no_cards"))
    if (shape, kept) in work.failed:
        return Cause("kept_for_head", line.head.id if line.head else 0, not group.limited)
    asks = [_ask_elastic(work, task, gpu_type, cap, kept) for gpu_type, cap in caps]
    for ask in asks:
        hosts = find_free(work.cluster, ask, spread=work.policy.placement == "spread")
        if hosts is not None:
            work.start(task, "elastic", hosts)
            return None
    if work.policy.elastic_order == "round_robin" and _end_slices(work, task, asks):
        return None
    work.failed.add((shape, kept))
    if kept:
        return Cause("kept_for_head", line.head.id if line.head else 0, not group.limited)
    return _note_head(work, line, task, Cause("no_cards"))


def _ask_elastic(work: Work, task: Waiting, gpu_type: int, caps: Caps, kept: frozenset[int]) -> Ask:
    accepts: Callable[[Host], bool] | None = None
    if task.avoid or kept or task.needs not in (work.cluster.offered_by_all or ()):

        def accepts(host: Host) -> bool:
            return task.needs in host.offers and host.id not in task.avoid and host.id not in kept

    return Ask(gpu_type, task.region, task.host_num, task.host_gpu_num, caps, accepts)


def _end_slices(work: Work, task: Waiting, asks: list[Ask]) -> bool:
    """Let the longest runners past their slice make room for the task; note when the next slice ends."""
    runners = work.over_slice()
    for ask in asks:
        found = find_over_slice(work.cluster, ask, work.ranking, runners)
        if found is not None:
            work.claim(task, "elastic", found, "slice")
            return True
    types = {ask.gpu_type for ask in asks}
    for runner in work.cluster.running.values():
        if runner.gpu_type in types and runner.pull_up and not work.cluster.is_high(runner):
            work.wake(
                max(runner.started + work.policy.slice_s, protected_until(runner, work.now, work.policy))
            )
    return False
