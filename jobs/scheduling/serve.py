"""Try waiting tasks one after the other: where does it start, whom does it evict, or why does it wait."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal

from jobs.scheduling.groups import NO_QUOTA, Cause, Group
from jobs.scheduling.hosts import Host
from jobs.scheduling.order import first_open, walk
from jobs.scheduling.placement import Ask, avoided, find_free
from jobs.scheduling.preemption import (
    STAGES,
    Preemption,
    find_beside,
    find_leaving,
    find_over_slice,
    find_victims,
    is_coming,
)
from jobs.scheduling.queue import waits_since
from jobs.scheduling.quota import FREE, Caps
from jobs.scheduling.reservation import ends_at, withheld
from jobs.scheduling.types import NEVER, Running, Waiting
from jobs.scheduling.work import Class, LineState, Work

Try = Callable[[Work, Group, Waiting], Cause | None]  # None: it starts, or makes room for itself


def serve(work: Work, turns: Iterable[tuple[Group, Waiting]], attempt: Try) -> None:
    """Try every task whose turn comes, and note for whom else a failure holds."""
    started, claims = work.started, work.cluster.claims
    for group, task in turns:
        if task.id in started or task.id in claims or (group.parted and group.keeps(task)):
            continue
        cause = attempt(work, group, task)
        if cause is not None:
            group.note(task, cause)


def try_high(work: Work, group: Group, task: Waiting) -> Cause | None:
    """Start a high task inside its quota, or plan whom to evict for it."""
    line = work.line_of(group)
    if line.stopped and line.head is not None:
        return Cause("behind", line.head.id)
    caps = high_types(work, task)
    if not caps:
        return None if _end_kept_places(work, line, task) else _note_quota_head(work, task)
    cause = _place_high(work, group, line, task, caps)
    return cause if cause is None or cause.code == "kept_for_head" else _note_head(work, line, task, cause)


def _note_quota_head(work: Work, task: Waiting) -> Cause:
    """Keep quota for a task that waited too long for it, else smaller ones of its business always come first.

    So aging bounds how many of them overtake it. It is no head of its line: no card is kept for it.
    """
    cards = task.host_num * task.host_gpu_num
    ledger, heads = work.cluster.ledger, work.quota_heads
    for gpu_type in task.gpu_types:
        head = heads.get((task.business, gpu_type))
        if head and ledger.high_caps(task.business, gpu_type).allows(task.region, cards):
            return Cause("quota_kept", head.id, "owner")
    if work.policy.aging_s > 0 and not work.is_aged(task):
        work.wake(waits_since(task) + work.policy.aging_s)
        return NO_QUOTA
    missing = {t: cards - ledger.high_caps(task.business, t).total for t in task.gpu_types}
    possible = [t for t in task.gpu_types if ledger.high_use(task.business, t)[1] >= cards]
    if work.is_aged(task) and possible:
        heads.setdefault((task.business, min(possible, key=missing.__getitem__)), task)
    return NO_QUOTA


def _end_kept_places(work: Work, line: LineState, task: Waiting) -> bool:
    """Plan a start on the quota of the business's own kept places: as many of them go as it takes."""
    cards = task.host_num * task.host_gpu_num
    cluster = work.cluster
    if not cluster.keepers:
        return False
    kept = [cluster.running[i] for i in sorted(cluster.keepers) if i not in cluster.leaving]
    for gpu_type in work.types_of(task):
        caps = cluster.ledger.high_caps(task.business, gpu_type)
        ours = [
            k for k in kept if cluster.is_high(k) and (k.business, k.gpu_type) == (task.business, gpu_type)
        ]
        going: list[Running] = []
        while not caps.allows(task.region, cards) and ours:
            going.append(ours.pop(0))
            caps = caps.raised(Counter({host.region: n for host, n in cluster.hosts_of(going[-1])}))
        if not caps.allows(task.region, cards):
            continue
        ask = ask_for(work, task, gpu_type, caps, work.kept_hosts(line, task), "high")
        for stage in STAGES:
            found = find_beside(cluster, ask, work.ranking, stage, going)
            if found is not None:
                work.claim(task, "high", found, "victim")
                return True
    return False


def try_auto(work: Work, group: Group, task: Waiting) -> Cause | None:
    """Try an auto task as a high one, on quota that no high task waits for; else it may run elastic."""
    caps = high_types(work, task, wanted_by_high(work))
    return _place_high(work, group, work.line_of(group), task, caps) if caps else _note_quota_head(work, task)


def high_types(
    work: Work, task: Waiting, spared: Mapping[tuple[int, int], int] = MappingProxyType({})
) -> list[tuple[int, Caps]]:
    """Return the task's types where its business has quota left for it, and for those it is spared for."""
    cards = task.host_num * task.host_gpu_num
    found = []
    for gpu_type in work.types_of(task):
        caps = work.cluster.ledger.high_caps(task.business, gpu_type)
        total = cards + spared.get((task.business, gpu_type), 0)
        if (
            total <= caps.total
            and caps.allows(task.region, cards)
            and _leaves_quota(work, task, gpu_type, cards)
        ):
            found.append((gpu_type, caps))
    return found


def _leaves_quota(work: Work, task: Waiting | Running, gpu_type: int, cards: int) -> bool:
    """Say whether quota enough is left beside the task for the one of its business that it is kept for."""
    head = work.quota_heads.get((task.business, gpu_type))
    if head is None or head is task:
        return True
    return _beside(head, task.region, cards, work.cluster.ledger.high_caps(task.business, gpu_type))


def _beside(head: Waiting, region: int | None, cards: int, caps: Caps) -> bool:
    """Say whether the caps allow the head's cards and so many besides in the region."""
    together = cards + head.host_num * head.host_gpu_num
    return together <= caps.total and (head.region != region or caps.allows(region, together))


def wanted_by_high(work: Work) -> dict[tuple[int, int], int]:
    """Return the cards that waiting high tasks will take of their business's quota, by (business, type)."""
    if work.wanted is None:
        work.wanted = defaultdict(int)
        waiting = [task for group in work.queue.of_phase("high") for task in group.tasks]
        for task in waiting:
            if task.id in work.started or task.id in work.cluster.claims:
                continue
            cards = task.host_num * task.host_gpu_num
            for gpu_type in task.gpu_types:
                if cards <= work.cluster.ledger.high_use(task.business, gpu_type)[1]:
                    work.wanted[task.business, gpu_type] += cards
    return work.wanted


def serve_autos(work: Work) -> None:
    """Turn running autos high and try waiting ones as high, all of them by first submission."""
    cluster = work.cluster
    running = [cluster.running[task_id] for task_id in cluster.autos if task_id not in cluster.leaving]
    running.sort(key=lambda task: (task.submitted, task.id), reverse=True)

    def turns() -> Iterator[tuple[Group, Waiting]]:
        for group, task in walk(work.queue.of_phase("auto"), first_open):
            _promote_before(work, running, (task.submitted, task.id))
            yield group, task

    serve(work, turns(), try_auto)
    _promote_before(work, running, (float("inf"), 0))


def _promote_before(work: Work, running: list[Running], place: tuple[float, int]) -> None:
    while running and (running[-1].submitted, running[-1].id) < place:
        task = running.pop()
        evicted = task.id in work.cluster.leaving  # for an auto that came before it in line
        if not evicted and _may_promote(work, task):
            work.promote(task)


def _may_promote(work: Work, task: Running) -> bool:
    caps = work.cluster.ledger.high_caps(task.business, task.gpu_type)
    if not _leaves_quota(work, task, task.gpu_type, task.cards):
        return False
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


def _place_high(
    work: Work, group: Group, line: LineState, task: Waiting, caps: list[tuple[int, Caps]]
) -> Cause | None:
    kept = work.kept_hosts(line, task)
    own = len(caps) < len(task.gpu_types) or bool(work.bound) or any(cap.regions for _, cap in caps)
    asks = [ask_for(work, task, gpu_type, cap, kept, "high") for gpu_type, cap in caps]
    if _start_free(work, task, "high", asks):
        return None
    delayed_until = waits_since(task) + work.policy.evict_delay_s if work.policy.evict_delay_s else 0.0
    found = _preempt(work, asks, may_evict=work.now >= delayed_until)
    if found is not None:
        work.claim(task, "high", found, "victim")
        return None
    if work.now < delayed_until:
        work.wake(delayed_until)
        return Cause("evict_delay", delayed_until, "task")
    limited = bool(kept or work.bound) and group.limited
    return _failure("no_room", line, task, kept, limited=limited, own=own)


def _start_free(work: Work, task: Waiting, task_class: Class, asks: list[Ask]) -> bool:
    """Start the task on the first of the types where it fits now."""
    for ask in asks:
        if ask.size in work.misses:
            continue
        hosts = find_free(work.cluster, ask, spread=work.policy.placement == "spread")
        if hosts is not None:
            work.start(task, task_class, hosts)
            return True
        if ask.plain:
            work.misses.add(ask.size)
    return False


def _failure(
    code: str, line: LineState, task: Waiting, kept: frozenset[int], *, limited: bool, own: bool
) -> Cause:
    """Return the cause of finding no cards, and for whom else it holds: for all of the group, unless …"""
    scope: Literal["group", "owner"] = "owner" if own else "group"  # … quota or caps differ
    limit = 0.0
    if limited:  # … or a shorter task may run where this one may not
        limit = NEVER if task.time_limit is None else task.time_limit
    if kept and line.head:
        return Cause("kept_for_head", line.head.id, scope, limit)
    return Cause(code, 0, scope, limit)


def ask_for(
    work: Work, task: Waiting, gpu_type: int, caps: Caps, kept: frozenset[int], task_class: Class
) -> Ask:
    """Return what to look for on one type, and which hosts to pass over; reservations bind high tasks alone."""
    bound = work.bound if task_class == "high" else {}
    anywhere = not bound and task.needs in (work.cluster.offered_by_all or ())
    if anywhere and not kept and not task.avoid and caps.regions is None:
        return work.plain_ask(gpu_type, task)
    barred = kept | avoided(work.cluster, task) if task.avoid else kept
    if anywhere:
        return Ask(gpu_type, task.region, task.host_num, task.host_gpu_num, caps, barred)
    ends = NEVER if task.time_limit is None else work.now + task.time_limit

    def accepts(host: Host) -> bool:
        left = withheld(bound, host, task.business, ends) if bound else 0
        return task.needs in host.offers and (not left or host.soon + host.soft - left >= task.host_gpu_num)

    return Ask(gpu_type, task.region, task.host_num, task.host_gpu_num, caps, barred, accepts)


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
            miss = (stage, ask.size)
            if miss in work.misses:
                continue
            found = find_victims(work.cluster, ask, work.ranking, stage)
            if found is not None:
                return found
            if ask.plain:
                work.misses.add(miss)
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
    caps = _elastic_types(work, task)
    if not caps:
        return _note_cap_head(work, task)
    kept = work.kept_hosts(line, task)
    own = len(caps) < len(task.gpu_types) or any(cap.regions for _, cap in caps)
    if work.policy.elastic_order == "round_robin" or not _is_missed(work, task):
        asks = [ask_for(work, task, gpu_type, cap, kept, "elastic") for gpu_type, cap in caps]
        if _start_free(work, task, "elastic", asks):
            return None
        if work.policy.elastic_order == "round_robin" and _end_slices(work, task, asks):
            return None
    limited = bool(kept or work.bound) and group.limited
    cause = _failure("no_cards", line, task, kept, limited=limited, own=own)
    return cause if cause.code == "kept_for_head" else _note_head(work, line, task, cause)


def _is_missed(work: Work, task: Waiting) -> bool:
    """Say whether its size was looked for in vain on each of its types: nothing comes free in a pass."""
    region, hosts, cards = task.region, task.host_num, task.host_gpu_num
    return all((gpu_type, region, hosts, cards) in work.misses for gpu_type in task.gpu_types)


def _elastic_types(work: Work, task: Waiting) -> list[tuple[int, Caps]]:
    """Return the task's types where the elastic caps of its business and user leave room for it."""
    cards = task.host_num * task.host_gpu_num
    ledger = work.cluster.ledger
    if not ledger.caps_elastic:
        return [(gpu_type, FREE) for gpu_type in work.types_of(task)]
    caps = [
        (gpu_type, ledger.elastic_caps(task.business, task.user, gpu_type))
        for gpu_type in work.types_of(task)
    ]
    allowed = [(gpu_type, cap) for gpu_type, cap in caps if cap.allows(task.region, cards)]
    if not work.cap_heads:
        return allowed
    return [(gpu_type, cap) for gpu_type, cap in allowed if _leaves_cap(work, task, gpu_type, cap, cards)]


def _leaves_cap(work: Work, task: Waiting, gpu_type: int, caps: Caps, cards: int) -> bool:
    """Say whether the elastic caps leave enough beside the task for the one of its business they are kept for."""
    head = work.cap_heads.get((task.business, gpu_type))
    if head is None or head is task:
        return True
    if head.user != task.user:
        caps = work.cluster.ledger.elastic_caps_of_all(task.business, gpu_type)
    return _beside(head, task.region, cards, caps)


def _note_cap_head(work: Work, task: Waiting) -> Cause:
    """Keep what its caps leave for an elastic task that waited too long for it, as with quota."""
    cards = task.host_num * task.host_gpu_num
    ledger, heads = work.cluster.ledger, work.cap_heads
    for gpu_type in task.gpu_types:
        head = heads.get((task.business, gpu_type))
        if head and ledger.elastic_caps(task.business, task.user, gpu_type).allows(task.region, cards):
            return Cause("cap_kept", head.id, "owner")
    if work.is_aged(task):
        left = {t: ledger.elastic_caps(task.business, task.user, t).total for t in task.gpu_types}
        possible = [
            t for t in task.gpu_types if ledger.elastic_limits(task.business, t).allows(task.region, cards)
        ]
        if possible:
            heads.setdefault((task.business, max(possible, key=left.__getitem__)), task)
    return Cause("elastic_cap", scope="owner")


def _end_slices(work: Work, task: Waiting, asks: list[Ask]) -> bool:
    """Let the longest runners past their slice make room for the task."""
    work.find_slices()
    for ask in asks:
        miss = ("slice", ask.size)
        if miss in work.misses:
            continue
        if is_coming(work.cluster, ask, work.ranking):
            continue  # cards are free or coming: whoever holds them for others, no slice ends for it
        runners = partial(work.over_slice, ask.gpu_type)
        found = find_over_slice(work.cluster, ask, work.ranking, runners)
        if found is not None:
            work.claim(task, "elastic", found, "slice")
            return True
        if ask.plain:
            work.misses.add(miss)
    return False
