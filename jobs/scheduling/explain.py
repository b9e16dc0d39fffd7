"""Say why each waiting task waits, from the causes that the pass noted and the cards as they are after it."""

from jobs.scheduling.cluster_state import Cluster, Host
from jobs.scheduling.order import Group
from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import Claim, Snapshot, Waiting
from jobs.scheduling.work import Cause, Work


def explain(work: Work, names: Snapshot) -> dict[int, Reason]:
    """Return the reason of every task that still waits; tasks of one shape share one object."""
    speaker = _Speaker(work, names)
    reasons: dict[int, Reason] = {}
    for group, position, cause in work.waiting_groups:  # the last word counts: an auto's is on being elastic
        reason = speaker.reason(group, cause)
        reasons.update(dict.fromkeys([entry[2] for entry in group.entries[position:]], reason))
    for task_id, (group, cause) in work.waiting_tasks.items():
        if task_id not in reasons or group.phase == "elastic":
            reasons[task_id] = speaker.reason(group, cause)
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

    def reason(self, group: Group, cause: Cause) -> Reason:
        """Return the reason for the group's cause."""
        key = (group.phase, group.shape, cause.code, cause.detail, group.business, group.user)
        if key not in self._made:
            self._made[key] = self._make(group, cause)
        return self._made[key]

    def _make(self, group: Group, cause: Cause) -> Reason:
        task = group.task
        match cause.code:
            case "behind" | "kept_for_head":
                return Reason(cause.code, {"head": int(cause.detail)})
            case "evict_delay":
                return Reason("evict_delay", {"at": cause.detail})
            case "quota":
                return self._quota(task)
            case "elastic_cap":
                left = max(
                    self.cluster.ledger.elastic_caps(task.business, task.user, gpu_type).total
                    for gpu_type in task.gpu_types
                )
                return Reason("elastic_cap", {**self._asked(task), "left": max(0, left)})
        return self._cards(group, task, high=cause.code == "no_room")

    def _asked(self, task: Waiting) -> dict[str, int | float | str]:
        types = ", ".join(self._type(gpu_type) for gpu_type in task.gpu_types)
        return {
            "cards": task.host_num * task.host_gpu_num,
            "types": types,
            "host_num": task.host_num,
            "per_host": task.host_gpu_num,
        }

    def _type(self, gpu_type: int) -> str:
        return self.names.type_names.get(gpu_type, "") or "cards"

    def _business(self, business: int) -> str:
        return self.names.business_names.get(business, str(business))

    def _quota(self, task: Waiting) -> Reason:
        """Speak of the first type where the business has a quota at all."""
        ledger = self.cluster.ledger
        owner = self._business(task.business)
        asked = self._asked(task)
        rated = [t for t in task.gpu_types if ledger.high_use(task.business, t)[1] > 0]
        if not rated:
            used = [t for t in task.gpu_types if ledger.high_use(task.business, t)[0] > 0]
            if not used:
                return Reason("no_quota", {"business": owner, "types": asked["types"]})
            rated = used
        used_cards, limit = ledger.high_use(task.business, rated[0])
        name = self._type(rated[0])
        if used_cards > limit:
            over = used_cards - limit
            return Reason(
                "quota_over",
                {"business": owner, "type": name, "used": used_cards, "limit": limit, "over": over},
            )
        cards = task.host_num * task.host_gpu_num
        if used_cards + cards <= limit:
            left = limit - used_cards
            return Reason("quota_region", {"cards": cards, "type": name, "business": owner, "left": left})
        return Reason(
            "quota", {"cards": cards, "type": name, "business": owner, "used": used_cards, "limit": limit}
        )

    def _cards(self, group: Group, task: Waiting, *, high: bool) -> Reason:
        """Say what there is against what is asked, over all types that the task accepts."""
        asked = self._asked(task)
        sight = self._sight(task)
        if sight.able < task.host_num:
            return Reason("no_host", {**asked, "hosts": sight.able})
        if high and self.work.bound and sight.fitting_soft >= task.host_num:
            return Reason("reserved", {**asked, "bound": sum(row.cards for row in self.work.reservations)})
        if sight.held and sight.fitting_but_for_claims >= task.host_num:
            return Reason("held_for", {**asked, "held": sight.held})
        gang = "_gang" if task.host_num > 1 else ""
        if high:
            numbers = {"elastic": sight.soft, "largest": sight.largest_soft, "fitting": sight.fitting_soft}
            return Reason(f"no_room{gang}", {**asked, "free": sight.free, **numbers})
        return Reason(
            f"no_cards{gang}",
            {**asked, "free": sight.free, "largest": sight.largest, "fitting": sight.fitting},
        )

    def _sight(self, task: Waiting) -> "_Sight":
        key = (task.gpu_types, task.region, task.host_gpu_num, task.avoid, task.needs)
        if key not in self._sights:
            pools = [pool for t in task.gpu_types for pool in self.cluster.pools_of(t, task.region)]
            self._sights[key] = _Sight([host for pool in pools for host in pool.hosts.values()], task)
        return self._sights[key]


class _Sight:
    """What the pools hold for a task: sums and counts over their hosts, the same for all tasks of its size."""

    def __init__(self, hosts: list[Host], task: Waiting) -> None:
        need = task.host_gpu_num
        able = [h for h in hosts if h.total >= need and h.id not in task.avoid and task.needs in h.offers]
        self.able = len(able)
        self.fitting = sum(host.room >= need for host in able)
        self.fitting_soft = sum(host.room + host.soft >= need for host in able)
        self.fitting_but_for_claims = sum(len(host.numbers) >= need for host in able)
        self.free = sum(host.room for host in hosts)
        self.soft = sum(host.soft for host in hosts)
        self.held = sum(len(host.numbers) for host in hosts) - self.free
        self.largest = max((host.room for host in hosts), default=0)
        self.largest_soft = max((host.room + host.soft for host in hosts), default=0)
