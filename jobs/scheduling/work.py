"""One pass at work: the state it changes, the verdicts it has given so far, and the ways to give one."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.fair import Accounts
from jobs.scheduling.groups import Group, Line, Phase
from jobs.scheduling.hosts import Host
from jobs.scheduling.placement import Ask, Size
from jobs.scheduling.preemption import Preemption, Ranking, is_protected
from jobs.scheduling.queue import Queue, waits_since
from jobs.scheduling.reservation import Binder, Binding, Bound, Gathering, ends_at
from jobs.scheduling.types import (
    NEVER,
    Claim,
    Evict,
    Plan,
    Policy,
    Promote,
    Reservation,
    Rule,
    Running,
    Start,
    Waiting,
)

Class = Literal["high", "elastic"]
NOWHERE = Binding(frozenset(), 0.0)


@dataclass(slots=True)
class LineState:
    """What the first task that cannot start does to those behind it in its line."""

    phase: Phase
    head: Waiting | None = None
    stopped: bool = False  # nobody behind the head starts
    reserves: bool = False  # the head has waited long enough for hosts to be kept for it
    binding: Binding | None = None  # found when first needed


@dataclass(slots=True)
class Work:
    """The working state of one pass."""

    now: float
    policy: Policy
    cluster: Cluster
    queue: Queue
    accounts: Accounts
    reservations: tuple[Reservation, ...] = ()
    starts: list[Start] = field(default_factory=list)
    evictions: list[Evict] = field(default_factory=list)
    promotions: list[Promote] = field(default_factory=list)
    started: set[int] = field(default_factory=set)
    wake_at: float = NEVER
    lines: dict[Line, LineState] = field(default_factory=dict)
    # By business and type: high tasks that quota is kept for.
    quota_heads: dict[tuple[int, int], Waiting] = field(default_factory=dict)
    cap_heads: dict[tuple[int, int], Waiting] = field(default_factory=dict)  # the same for elastic caps
    misses: set[Hashable] = field(default_factory=set)  # what was looked for in vain, for whomever
    _asks: dict[Size, Ask] = field(default_factory=dict)
    # By business and type: cards that waiting high tasks will take; worked out when first asked.
    wanted: dict[tuple[int, int], int] | None = None
    ranking: Ranking = field(init=False)
    gathering: Gathering = field(init=False)
    binder: Binder | None = None  # where operators reserved cards
    _over_slice: dict[int, list[Running]] | None = None

    def __post_init__(self) -> None:
        self.ranking = Ranking(self.now, self.policy)
        self.gathering = Gathering(self.cluster, self.now)

    def bind(self) -> None:
        """Choose the hosts that operators' reservations keep cards on; the standing claims are let go."""
        if self.reservations:
            self.binder = Binder(self.cluster, self.reservations, self.now)

    def plan(self) -> Plan:
        """Return what was decided, but for the reasons."""
        return Plan(
            starts=tuple(self.starts),
            evictions=tuple(self.evictions),
            promotions=tuple(self.promotions),
            claims=tuple(claim for _, claim in sorted(self.cluster.claims.items())),
            wake_at=self.wake_at if self.wake_at < NEVER else None,
        )

    def wake(self, at: float) -> None:
        """Ask for another pass at `at`, when time alone may change the plan."""
        if self.now < at < self.wake_at:
            self.wake_at = at

    # Verdicts

    def start(self, task: Waiting, task_class: Class, hosts: list[Host]) -> None:
        """Start the task on these hosts now."""
        numbers = self.cluster.start(task, task_class, hosts, self.now)
        self.starts.append(
            Start(task=task.id, task_class=task_class, gpu_type=hosts[0].gpu_type, numbers=numbers)
        )
        self.started.add(task.id)
        if task_class == "elastic":
            cards = task.host_num * task.host_gpu_num
            self.accounts.start(task.business, task.user, cards, self.now, self.now)
        elif self.binder:
            ends = NEVER if task.time_limit is None else self.now + task.time_limit
            held = dict.fromkeys(numbers, task.host_gpu_num)
            self.binder.count(task.business, hosts[0].gpu_type, held, ends)

    def hold(self, claim: Claim, business: int) -> None:
        """Hold the claim's cards."""
        self.cluster.hold(claim, business)
        if self.binder and claim.task_class == "high":
            self.binder.count(business, claim.gpu_type, claim.hosts, NEVER)

    def claim(self, task: Waiting, task_class: Class, found: Preemption, rule: Rule) -> None:
        """Hold the hosts for the task, and tell the victims to leave."""
        for victim in found.victims:
            if victim.keeping:
                why: Rule = "keeping"
            elif rule == "victim" and is_protected(victim, self.now, self.policy):
                why = "guarantee"
            else:
                why = rule
            self.evict(victim, task.id, why)
        claim = Claim(
            task=task.id,
            gpu_type=found.hosts[0].gpu_type,
            task_class=task_class,
            hosts={host.id: task.host_gpu_num for host in found.hosts},
            made_at=self.now,
            last_term_at=self.now if found.victims else None,
        )
        self.hold(claim, task.business)
        self.wake(self.now + self.policy.plan_lapse_s)

    def evict(self, victim: Running, for_task: int | None, rule: Rule) -> None:
        """Tell a running task to leave."""
        self.evictions.append(Evict(task=victim.id, for_task=for_task, rule=rule))
        self.cluster.leave(victim, self.now)

    def promote(self, task: Running) -> None:
        """Turn a running auto task high."""
        self.promotions.append(Promote(task=task.id))
        self.cluster.promote(task)
        self.accounts.end(task.business, task.user, task.cards, task.started, self.now)
        if self.binder:
            self.binder.count(task.business, task.gpu_type, task.hosts, ends_at(task, self.now))

    def is_aged(self, task: Waiting) -> bool:
        """Say whether the task waited so long that others go before it no more."""
        return 0 < self.policy.aging_s <= self.now - waits_since(task)

    def types_of(self, task: Waiting) -> tuple[int, ...]:
        """Return the task's types in the order to try them."""
        if not task.any_type:
            return task.gpu_types
        free = {t: sum(pool.free() for pool in self.cluster.pools_of(t, task.region)) for t in task.gpu_types}
        return tuple(sorted(task.gpu_types, key=lambda t: -free[t]))  # stable: ties stay in the order given

    def plain_ask(self, gpu_type: int, task: Waiting) -> Ask:
        """Return what to look for where only the type, the region and the cards count: one for all of a size."""
        size = (gpu_type, task.region, task.host_num, task.host_gpu_num)
        ask = self._asks.get(size)
        if ask is None:
            ask = self._asks[size] = Ask(*size)
        return ask

    # Lines

    def line_of(self, group: Group) -> LineState:
        """Return the state of the group's line."""
        line = self.lines.get(group.line)
        if line is None:
            line = self.lines[group.line] = LineState(group.phase)
        return line

    def kept_hosts(self, line: LineState, task: Waiting) -> frozenset[int]:
        """Return the hosts that the task must leave to the head of its line."""
        if not line.reserves or line.head is None:
            return NOWHERE.hosts
        if line.binding is None:
            line.binding = self.gathering.soonest(line.head, line.phase, self.bound) or NOWHERE
        if task.time_limit is not None and self.now + task.time_limit <= line.binding.at:
            return NOWHERE.hosts
        return line.binding.hosts

    @property
    def bound(self) -> Bound:
        """Return the cards that reservations keep from high tasks, as things stand."""
        return self.binder.bound if self.binder else {}

    def over_slice(self, gpu_type: int) -> list[Running]:
        """Return the elastic tasks of a type past their slice that accept pull-up, the longest runner first."""
        slices = self._over_slice or {}
        slices[gpu_type] = [task for task in slices.get(gpu_type, ()) if task.id not in self.cluster.leaving]
        return slices[gpu_type]

    def find_slices(self) -> None:
        """Collect who is past his slice, once in a pass, and wake when the next one's ends."""
        if self._over_slice is not None:
            return
        found: dict[int, list[Running]] = defaultdict(list)
        for task in self.cluster.running.values():
            if not task.pull_up or task.keeping or self.cluster.is_high(task):
                continue
            over_at = self.ranking.over_at(task)
            if over_at <= self.now:
                found[task.gpu_type].append(task)
            else:
                self.wake(over_at)
        for tasks in found.values():
            tasks.sort(key=lambda task: (task.started, task.id))
        self._over_slice = found
