"""Say why each waiting task waits, from the causes that the pass noted and the cards as they are after it."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.groups import NO_QUOTA, Cause, Group, Phase
from jobs.scheduling.hosts import Host, Pool
from jobs.scheduling.placement import avoided
from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import Claim, Snapshot, Waiting
from jobs.scheduling.work import Work

# What a task needs → the reason where hosts lack it.
LACKING = {"container": "no_container", "mpijob": "no_mpijob"}
REMARKS = 3  # of operators on hosts that take no starts; so many are told


def explain(work: Work, names: Snapshot) -> dict[int, Reason]:
    """Return the reason of every task that still waits; tasks of one shape share one object."""
    speaker = _Speaker(work, names)
    reasons: dict[int, Reason] = {}
    phases: tuple[Phase, ...] = ("high", "auto", "elastic")
    for phase in phases:  # the last word counts: an auto's is on being elastic
        for group in work.queue.of_phase(phase):
            if group.cause is not None:
                ids = [task.id for task in group.tasks]
                reasons.update(dict.fromkeys(ids, speaker.reason(group, group.cause)))
            if group.longer or group.by_owner or group.single:
                reasons.update(speaker.own_reasons(group))
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


Args = dict[str, int | float | str]


class _Speaker:
    """Makes each different reason once."""

    def __init__(self, work: Work, names: Snapshot) -> None:
        self.work = work
        self.cluster = work.cluster
        self.names = names
        self._made: dict[Hashable, Reason] = {}
        self._sights: dict[Hashable, _Sight] = {}
        # By types and cards the reasons of businesses that have no quota left for them, and each of those
        # reasons by business, type and cards.
        self._short: dict[tuple[tuple[int, ...], int], dict[int, Reason]] = defaultdict(dict)
        self._uses: dict[tuple[int, int, int], Reason] = {}
        self._pools: dict[tuple[int, int], _Sight] = {}  # by type and region

    def reason(self, group: Group, cause: Cause, task: Waiting | None = None) -> Reason:
        """Return the reason for the group's cause, or for that of one of its tasks."""
        key: Hashable
        if cause.code in ("behind", "kept_for_head", "evict_delay"):
            key = (cause.code, cause.detail)
        elif cause.code == "quota":
            return self._quota(task or group.task)
        else:
            key = (group.phase, group.shape, cause, None if task is None else group.owner(task))
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(task or group.task, cause)
        return made

    def own_reasons(self, group: Group) -> dict[int, Reason]:
        """Return the reasons of those in the group who wait for another cause than the group."""
        general, causes = group.longer, list(group.by_owner.values())
        if general is None and not group.single and causes.count(NO_QUOTA) == len(causes):
            return self._short_of_quota(group)
        if general is not None and not group.by_owner and not group.single:
            reason, limit = self.reason(group, general), general.limit
            return {
                task.id: reason for task in group.tasks if task.time_limit is None or task.time_limit >= limit
            }
        limits = general is not None or any(cause.limit for cause in causes)
        by_owner = not group.single and not limits
        elastic = group.phase == "elastic"
        made: dict[Hashable, Reason | None] = {}
        found: dict[int, Reason] = {}
        for task in group.tasks:
            owner = (task.business, task.user) if elastic else task.business
            if not by_owner or owner not in made:
                cause = group.why_apart(task)
                made[owner] = None if cause is None else self.reason(group, cause, task)
            if (known := made[owner]) is not None:
                found[task.id] = known
        return found

    def _short_of_quota(self, group: Group) -> dict[int, Reason]:
        """Return the reasons of those in the group whose business has no quota left: most high tasks that wait."""
        short = group.by_owner
        reasons = self._short[group.task.gpu_types, group.task.host_num * group.task.host_gpu_num]
        found: dict[int, Reason] = {}
        for task in group.tasks:
            business = task.business
            if business in short:
                found[task.id] = reasons.get(business) or self._quota(task)
        return found

    def _make(self, task: Waiting, cause: Cause) -> Reason:
        match cause.code:
            case "behind" | "kept_for_head":
                return Reason(cause.code, {"head": int(cause.detail)})
            case "evict_delay":
                return Reason("evict_delay", {"at": cause.detail})
            case "quota_kept" | "cap_kept":
                return Reason(
                    cause.code,
                    {**self._asked(task), "business": self._business(task), "head": int(cause.detail)},
                )
            case "elastic_cap":
                ledger = self.cluster.ledger
                caps = [
                    ledger.elastic_caps(task.business, task.user, gpu_type) for gpu_type in task.gpu_types
                ]
                left = max(0, *(cap.left(task.region) for cap in caps))
                return Reason(
                    "elastic_cap", {**self._asked(task), "business": self._business(task), "left": left}
                )
        return self._cards(task, high=cause.code == "no_room")

    def _asked(self, task: Waiting) -> Args:
        return {
            "cards": task.host_num * task.host_gpu_num,
            "types": ", ".join(self._type(gpu_type) for gpu_type in task.gpu_types),
            "host_num": task.host_num,
            "per_host": task.host_gpu_num,
        }

    def _business(self, task: Waiting) -> str:
        return self.names.business_names.get(task.business, str(task.business))

    def _type(self, gpu_type: int) -> str:
        return self.names.type_names.get(gpu_type, "") or "cards"

    def _quota(self, task: Waiting) -> Reason:
        """Speak of the first type where the business has a quota, else of the first where it holds cards."""
        cards = task.host_num * task.host_gpu_num
        reasons = self._short[task.gpu_types, cards]
        known = reasons.get(task.business)
        if known is None:
            uses = [(t, *self.cluster.ledger.high_use(task.business, t)) for t in task.gpu_types]
            spoken = [use for use in uses if use[2] > 0] or [use for use in uses if use[1] > 0]
            known = reasons[task.business] = (
                self._use(task, cards, *spoken[0]) if spoken else self._no_quota(task)
            )
        return known

    def _no_quota(self, task: Waiting) -> Reason:
        return Reason("no_quota", {"business": self._business(task), "types": self._asked(task)["types"]})

    def _use(self, task: Waiting, cards: int, gpu_type: int, used: int, limit: int) -> Reason:
        """Return the reason of a business for so many cards of a type, the same one for all that ask them."""
        key = (task.business, gpu_type, cards)
        if key not in self._uses:
            args: Args = {"business": self._business(task), "type": self._type(gpu_type), "used": used}
            args["limit"] = limit
            if used > limit:
                self._uses[key] = Reason("quota_over", {**args, "over": used - limit})
            elif used + cards <= limit:
                self._uses[key] = Reason("quota_region", {**args, "cards": cards, "left": limit - used})
            else:
                self._uses[key] = Reason("quota", {**args, "cards": cards})
        return self._uses[key]

    def _cards(self, task: Waiting, *, high: bool) -> Reason:
        """Say what there is against what is asked, over all types that the task accepts."""
        asked = self._asked(task)
        need, hosts = task.host_gpu_num, task.host_num
        sight = self._sight(task)
        if sight.total.at_least(need) < hosts:
            return self._too_few(task, {**asked, "hosts": sight.total.at_least(need)})
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

    def _too_few(self, task: Waiting, args: Args) -> Reason:
        """Say why too few hosts are usable: they offer less than it needs, take no starts, or are too small."""
        if self._whole(task).total.at_least(task.host_gpu_num) >= task.host_num:
            return self._lacking(task, args)
        out = [host for host in self._out(task) if host.total >= task.host_gpu_num]
        if not out or int(args["hosts"]) + len(out) < task.host_num:
            return Reason("too_large", args)
        remarks = {remark: None for host in out if (remark := self.names.host_remarks.get(host.id))}
        said = {"remark": "; ".join(list(remarks)[:REMARKS])} if remarks else {}
        return Reason("no_host", {**args, "out": len(out), **said})

    def _out(self, task: Waiting) -> Iterator[Host]:
        """Return the hosts that would do, were they not taken out: cordoned, draining, quarantined, or lost."""
        passed_over = avoided(self.cluster, task)
        for gpu_type in task.gpu_types:
            for host in self.cluster.types.get(gpu_type, {}).values():
                there = task.region in (None, host.region) and host.state not in ("ready", "removed")
                if there and host.id not in passed_over and task.needs in host.offers:
                    yield host

    def _lacking(self, task: Waiting, args: Args) -> Reason:
        """Return the reason for hosts that are large enough but do not offer what the task needs."""
        idle = self._whole(task, offering_nothing=True).total.at_least(task.host_gpu_num)
        if idle and int(args["hosts"]) + idle >= task.host_num:
            return Reason("storage_away", {**args, "away": idle})
        if task.needs.endswith("_ceph"):
            return Reason("no_ceph", args)
        return Reason(LACKING.get(task.needs, "no_process"), args)

    def _whole(self, task: Waiting, *, offering_nothing: bool = False) -> "_Sight":
        """Return what all hosts hold that are not avoided, whatever they offer, or that offer nothing."""
        passed_over = avoided(self.cluster, task)
        sight = _Sight()
        for gpu_type in task.gpu_types:
            for pool in self.cluster.pools_of(gpu_type, task.region):
                for host in pool.hosts.values():
                    if host.id not in passed_over and not (offering_nothing and host.offers):
                        sight.see(host)
        return sight

    def _sight(self, task: Waiting) -> "_Sight":
        # Of those that avoid hosts the size counts too: it says whether enough others are left.
        size = (task.host_num, task.host_gpu_num) if task.avoid else None
        key = (task.gpu_types, task.region, task.avoid, task.needs, size)
        sight = self._sights.get(key)
        if sight is None:
            sight = self._sights[key] = self._look(task)
        return sight

    def _look(self, task: Waiting) -> "_Sight":
        passed_over = avoided(self.cluster, task)
        everywhere = task.needs in (self.cluster.offered_by_all or ())
        sight = _Sight()
        for gpu_type in task.gpu_types:
            for pool in self.cluster.pools_of(gpu_type, task.region):
                if everywhere and not passed_over:
                    sight.add(self._pool_sight(pool))
                    continue
                for host in pool.hosts.values():
                    if host.id not in passed_over and task.needs in host.offers:
                        sight.see(host)
        return sight

    def _pool_sight(self, pool: Pool) -> "_Sight":
        key = (pool.gpu_type, pool.region)
        sight = self._pools.get(key)
        if sight is None:
            sight = self._pools[key] = _Sight()
            for host in pool.hosts.values():
                sight.see(host)
        return sight


class _Counts:
    """How many hosts have each number of something: its sum, the most, and how many have enough."""

    def __init__(self) -> None:
        self.hosts: Counter[int] = Counter()  # number → hosts that have it

    @property
    def sum(self) -> int:
        """Return the sum over all hosts."""
        return sum(number * hosts for number, hosts in self.hosts.items())

    @property
    def most(self) -> int:
        """Return the most that one host has."""
        return max(self.hosts, default=0)

    def at_least(self, need: int) -> int:
        """Return how many hosts have so many."""
        return sum(hosts for number, hosts in self.hosts.items() if number >= need)


class _Sight:
    """What the hosts hold that some tasks may use."""

    def __init__(self) -> None:
        self.total = _Counts()
        self.room = _Counts()
        self.reach = _Counts()  # with all that could be evicted
        self.unclaimed = _Counts()  # as if nothing were held for anyone

    def see(self, host: Host) -> None:
        """Count one more host."""
        self.total.hosts[host.total] += 1
        self.room.hosts[host.room] += 1
        self.reach.hosts[host.room + host.soft] += 1
        self.unclaimed.hosts[len(host.numbers)] += 1

    def add(self, other: "_Sight") -> None:
        """Count all the hosts of another."""
        self.total.hosts.update(other.total.hosts)
        self.room.hosts.update(other.room.hosts)
        self.reach.hosts.update(other.reach.hosts)
        self.unclaimed.hosts.update(other.unclaimed.hosts)
