"""Say why each waiting task waits, from the causes that the pass noted and the cards as they are after it."""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping

from jobs.scheduling.cluster_state import Cluster, Host
from jobs.scheduling.order import Cause, Group, Phase
from jobs.scheduling.placement import avoided
from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import Claim, Snapshot, Waiting
from jobs.scheduling.work import Work


def explain(work: Work, names: Snapshot) -> dict[int, Reason]:
    """Return the reason of every task that still waits; tasks of one shape share one object."""
    speaker = _Speaker(work, names)
    reasons: dict[int, Reason] = {}
    phases: tuple[Phase, ...] = ("high", "auto", "elastic")
    for phase in phases:  # the last word counts: an auto's is on being elastic
        for group in work.queue.of_phase(phase):
            if group.cause is not None:
                ids = [entry[2] for entry in group.entries]
                reasons.update(dict.fromkeys(ids, speaker.reason(group, group.cause)))
            if group.blocked or work.waiting_tasks:
                reasons.update(speaker.own_reasons(group, work.waiting_tasks))
    for task_id, task in work.queue.gated.items():
        reasons[task_id] = _gate(task)
    for task_id, claim in work.cluster.claims.items():
        reasons[task_id] = _leaving(work.cluster, claim)
    for task_id in work.started:
        reasons.pop(task_id, None)
    return reasons


def _gate(task: Waiting) -> Reason:
    if task.gate in ("hold", "dependency"):
        return Reason(task.gate)
    return Reason(task.gate or "not_before", {"at": task.ready_at})


def _leaving(cluster: Cluster, claim: Claim) -> Reason:
    hosts = cluster.types[claim.gpu_type]
    missing = sum(max(0, cards - len(hosts[host_id].numbers)) for host_id, cards in claim.hosts.items())
    return Reason("leaving", {"cards": sum(claim.hosts.values()), "missing": missing})


class _Speaker:
    """Makes each different reason once."""

    def __init__(self, work: Work, names: Snapshot) -> None:
        self.work = work
        self.cluster = work.cluster
        self.names = names
        self._made: dict[object, Reason] = {}
        self._sights: dict[object, _Sight] = {}

    def reason(self, group: Group, cause: Cause, task: Waiting | None = None) -> Reason:
        """Return the reason for the group's cause, or for that of one of its tasks."""
        owner = None if task is None else group.owner(task)
        key = (group.phase, group.shape, cause.code, cause.detail, owner)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(task or group.task, cause)
        return made

    def own_reasons(self, group: Group, single: Mapping[int, Cause]) -> Iterator[tuple[int, Reason]]:
        """Give the reasons of those in the group who wait for another cause than the group."""
        of_owner: dict[Hashable, Reason] = {}
        for _, _, task_id, task in group.entries:
            owner = group.owner(task)
            if owner in of_owner:
                yield task_id, of_owner[owner]
            elif owner in group.blocked:
                of_owner[owner] = self.reason(group, group.blocked[owner], task)
                yield task_id, of_owner[owner]
            elif task_id in single:
                yield task_id, self.reason(group, single[task_id], task)

    def _make(self, task: Waiting, cause: Cause) -> Reason:
        match cause.code:
            case "behind" | "kept_for_head":
                return Reason(cause.code, {"head": int(cause.detail)})
            case "evict_delay":
                return Reason("evict_delay", {"at": cause.detail})
            case "quota":
                return self._quota(task)
            case "elastic_cap":
                ledger = self.cluster.ledger
                caps = [
                    ledger.elastic_caps(task.business, task.user, gpu_type) for gpu_type in task.gpu_types
                ]
                left = max(0, *(cap.total for cap in caps))
                return Reason("elastic_cap", {**self._asked(task), "left": left})
        return self._cards(task, high=cause.code == "no_room")

    def _asked(self, task: Waiting) -> dict[str, int | float | str]:
        return {
            "cards": task.host_num * task.host_gpu_num,
            "types": ", ".join(self._type(gpu_type) for gpu_type in task.gpu_types),
            "host_num": task.host_num,
            "per_host": task.host_gpu_num,
        }

    def _type(self, gpu_type: int) -> str:
        return self.names.type_names.get(gpu_type, "") or "cards"

    def _quota(self, task: Waiting) -> Reason:
        """Speak of the first type where the business has a quota, else of the first where it holds cards."""
        uses = [(t, *self.cluster.ledger.high_use(task.business, t)) for t in task.gpu_types]
        spoken = next((use for use in uses if use[2] > 0), None) or next(
            (use for use in uses if use[1] > 0), None
        )
        business = self.names.business_names.get(task.business, str(task.business))
        if spoken is None:
            return Reason("no_quota", {"business": business, "types": self._asked(task)["types"]})
        gpu_type, used, limit = spoken
        args: dict[str, int | float | str] = {
            "business": business,
            "type": self._type(gpu_type),
            "used": used,
            "limit": limit,
        }
        cards = task.host_num * task.host_gpu_num
        if used > limit:
            return Reason("quota_over", {**args, "over": used - limit})
        if used + cards <= limit:
            return Reason("quota_region", {**args, "cards": cards, "left": limit - used})
        return Reason("quota", {**args, "cards": cards})

    def _cards(self, task: Waiting, *, high: bool) -> Reason:
        """Say what there is against what is asked, over all types that the task accepts."""
        asked = self._asked(task)
        need, hosts = task.host_gpu_num, task.host_num
        sight = self._sight(task)
        if sight.total.at_least(need) < hosts:
            return Reason("no_host", {**asked, "hosts": sight.total.at_least(need)})
        if high and self.work.bound and sight.reach.at_least(need) >= hosts:
            return Reason("reserved", {**asked, "bound": sum(row.cards for row in self.work.reservations)})
        held = sight.unclaimed.sum - sight.room.sum
        if held and sight.unclaimed.at_least(need) >= hosts:
            return Reason("held_for", {**asked, "held": held})
        counted = sight.reach if high else sight.room
        numbers = {"free": sight.room.sum, "elastic": sight.reach.sum - sight.room.sum}
        numbers |= {"largest": counted.most, "fitting": counted.at_least(need)}
        code = "no_room" if high else "no_cards"
        return Reason(code if hosts == 1 else f"{code}_gang", {**asked, **numbers})

    def _sight(self, task: Waiting) -> "_Sight":
        # Of those that avoid hosts the size counts too: it says whether enough others are left.
        size = (task.host_num, task.host_gpu_num) if task.avoid else None
        key = (task.gpu_types, task.region, task.avoid, task.needs, size)
        if key not in self._sights:
            pools = [pool for t in task.gpu_types for pool in self.cluster.pools_of(t, task.region)]
            passed_over = avoided(self.cluster, task)
            hosts = [host for pool in pools for host in pool.hosts.values() if host.id not in passed_over]
            self._sights[key] = _Sight([host for host in hosts if task.needs in host.offers])
        return self._sights[key]


class _Counts:
    """One number of each host, asked for its sum and for how many hosts have enough."""

    def __init__(self, numbers: list[int]) -> None:
        self._ascending = sorted(numbers)
        self.sum = sum(numbers)
        self.most = self._ascending[-1] if numbers else 0

    def at_least(self, need: int) -> int:
        """Return how many hosts have so many."""
        return len(self._ascending) - bisect_left(self._ascending, need)


class _Sight:
    """What the hosts hold that some tasks may use."""

    def __init__(self, hosts: list[Host]) -> None:
        self.total = _Counts([host.total for host in hosts])
        self.room = _Counts([host.room for host in hosts])
        self.reach = _Counts([host.room + host.soft for host in hosts])  # with all that could be evicted
        self.unclaimed = _Counts([len(host.numbers) for host in hosts])  # as if nothing were held for anyone
