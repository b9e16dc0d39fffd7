"""The waiting tasks in groups of one shape, each in the order of its class, kept up to date as they come and go."""

import heapq
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Literal, NamedTuple

from jobs.scheduling.types import NEVER, Policy, Waiting

Phase = Literal["high", "auto", "elastic"]
Entry = tuple[float, float, int, Waiting, "Group"]  # two sort keys, the id, the task, its group
Levels = tuple[list[Entry], list[Entry], list[Entry]]  # low, medium, high
Line = tuple[str, frozenset[int]]
BY_TIME = ("priority", "submission", "fifo", "fair_share")  # orders whose entries stand by first submission
TOP_LEVEL = 2  # aging lifts no task above high priority: up there the older goes first


class Cause(NamedTuple):
    """Why a task cannot start, and for whom else that holds in this pass."""

    code: str
    detail: float = 0  # a task or a time, by the code
    scope: Literal["group", "owner", "task"] = "group"
    limit: float = 0.0  # of those it holds for whoever may run at least so long, in seconds

    def holds_for(self, task: Waiting) -> bool:
        """Say whether the task may run long enough for it."""
        return task.time_limit is None or task.time_limit >= self.limit


NO_QUOTA = Cause("quota", scope="owner")


@dataclass(slots=True, eq=False)
class Group:
    """Waiting tasks of one shape: where one finds no place, none of them does."""

    phase: Phase
    task: Waiting  # the first one seen, for what all of them ask
    shape: Hashable
    aged: bool
    line: Line = field(init=False)
    entries: list[Entry] = field(default_factory=list)
    limited: bool = False  # some of them have a time limit
    cause: Cause | None = None  # why the rest of them waits, in the pass at work
    longer: Cause | None = None  # the same for those who may run so long as it says
    by_owner: dict[Hashable, Cause] = field(default_factory=dict)  # the same for those of one owner
    parted: bool = False  # there are such
    single: dict[int, Cause] = field(default_factory=dict)  # the same for one task

    def __post_init__(self) -> None:
        self.line = (self.phase, frozenset(self.task.gpu_types))

    def owner(self, task: Waiting) -> Hashable:
        """Return whose quota or cap counts for the task."""
        return task.business if self.phase != "elastic" else (task.business, task.user)

    def note(self, task: Waiting, cause: Cause) -> None:
        """Note why the task waits, for all for whom that holds."""
        if cause.scope == "task":
            self.single[task.id] = cause
        elif cause.scope == "owner":
            self.by_owner[self.owner(task)], self.parted = cause, True
        elif cause.limit:
            self.longer, self.parted = cause, True
        else:
            self.cause, self.longer = cause, None
            self.by_owner = {owner: known for owner, known in self.by_owner.items() if not known.limit}

    def keeps(self, task: Waiting) -> bool:
        """Say whether the task waits for what others of the group wait for."""
        if self.cause is not None or (self.longer is not None and self.longer.holds_for(task)):
            return True
        cause = self.by_owner.get(self.owner(task)) if self.by_owner else None
        return cause is not None and cause.holds_for(task)

    def why_apart(self, task: Waiting) -> Cause | None:
        """Return why the task waits, where it is not what all of the group wait for."""
        cause = self.by_owner.get(self.owner(task)) if self.by_owner else None
        if cause is not None and cause.holds_for(task):
            return cause
        if self.longer is not None and self.longer.holds_for(task):
            return self.longer
        return self.single.get(task.id)

    def forget(self) -> None:
        """Forget what the last pass noted."""
        self.cause, self.longer, self.parted = None, None, False
        if self.by_owner:
            self.by_owner.clear()
        if self.single:
            self.single.clear()


def waits_since(task: Waiting) -> float:
    """Return since when the task could have started."""
    return task.queued if task.queued > task.ready_at else task.ready_at


def is_gated(task: Waiting, now: float) -> bool:
    """Say whether something other than cards and quota keeps the task from starting."""
    return task.ready_at > now or task.gate in ("hold", "dependency")


Shape = tuple[str, tuple[int, ...], int, int, int | None, frozenset[int], bool, str]
_id_of: Callable[[Waiting], int] = attrgetter("id")
_level_of: Callable[[Waiting], tuple[int, int]] = attrgetter("business", "priority")
_shape_of: Callable[[Waiting], Shape] = attrgetter(
    "wanted", "gpu_types", "host_gpu_num", "host_num", "region", "avoid", "any_type", "needs"
)


class _Home:
    """Where the tasks of one shape stand in one phase: the young ones and the aged."""

    __slots__ = ("aged", "ages", "by_priority", "by_share", "by_time", "order", "young")

    def __init__(self, phase: Phase, order: str, task: Waiting, shape: Shape, policy: Policy) -> None:
        self.order = order
        self.by_time = order in BY_TIME  # entries stand by first submission, or in places that others had so
        self.by_priority, self.by_share = order == "priority", order == "fair_share"
        self.ages = policy.aging_s > 0 and order not in ("priority", "submission")
        self.young = self.aged = Group(phase, task, shape, aged=False)
        if self.ages:
            self.aged = Group(phase, task, shape, aged=True)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the young and the aged, where it tells them apart."""
        return (self.young, self.aged) if self.ages else (self.young,)


class Queue:
    """All waiting tasks, filed by what they ask; kept up to date by add, remove and advance."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.tasks: dict[int, Waiting] = {}
        self.gated: dict[int, Waiting] = {}
        self.groups: dict[Hashable, Group] = {}
        self.users: dict[tuple[int, int], list[Entry]] = defaultdict(list)  # what fair share orders
        self._homes: dict[Shape, tuple[_Home, ...]] = {}
        self._high: list[Entry] = []  # high tasks by first submission, where priorities order them
        self._levels: Counter[tuple[int, int]] = Counter()  # high tasks by business and priority
        self._filed_at = float("-inf")  # the latest instant that the tasks were filed for
        self._ranked: set[int] = set()  # businesses whose entries may stand in places of others
        self._edges: list[tuple[float, int]] | None = []  # heap: when a task leaves its gate or becomes aged

    @classmethod
    def of(cls, waiting: Iterable[Waiting], policy: Policy, now: float) -> "Queue":
        """Return the queue of a snapshot."""
        queue = cls(policy)
        queue._edges = None  # made when time goes on: most queues are used for one instant only
        in_time = sorted(sorted(waiting, key=_id_of), key=attrgetter("submitted"))
        queue.tasks = dict(zip(map(_id_of, in_time), in_time, strict=True))
        queue._levels.update(map(_level_of, [task for task in in_time if task.wanted == "high"]))
        queue._file(in_time, now, list.append)
        for home in chain.from_iterable(queue._homes.values()):
            if not home.by_time:
                for group in home.groups:
                    group.entries.sort()
        return queue

    def take_apart(self) -> None:
        """Let go of everything: entries and groups name each other, and only the collector would free them."""
        for group in self.groups.values():
            group.entries.clear()

    def add(self, task: Waiting, now: float) -> None:
        """File one more task."""
        self._expect(now)  # before it moves on the instant that the others were filed for
        self._take(task, now)

    def _take(self, task: Waiting, now: float) -> None:
        self.tasks[task.id] = task
        if task.wanted == "high":
            self._levels[_level_of(task)] += 1
        self._file((task,), now, insort)

    def remove(self, task_id: int) -> None:
        """Take the task out of the queue: it started or ended."""
        task = self.tasks.pop(task_id)
        if task.wanted == "high":
            self._levels[_level_of(task)] -= 1
        if self.gated.pop(task_id, None):
            return
        for home in self._homes[_shape_of(task)]:
            for group in home.groups:
                entry = _entry("submission" if group.aged else home.order, task, group)
                _drop(group.entries, entry)
                if home.order == "priority":
                    _drop(self._high, entry)
                if not group.entries:
                    self.groups.pop((group.phase, group.aged, group.shape), None)
            mine = self.users.get((task.business, task.user)) if home.order == "fair_share" else None
            if mine is not None:
                _drop(mine, entry)
                if not mine:
                    del self.users[task.business, task.user]

    def advance(self, now: float) -> None:
        """File anew whoever left a gate or became aged since, and forget what the last pass noted."""
        due = {}  # once each: an edge of an earlier wait may fall on the same instant
        self._expect(now)
        while self._edges and self._edges[0][0] <= now:
            edge, task_id = heapq.heappop(self._edges)
            if self._edge(task_id) == edge:
                due[task_id] = self.tasks[task_id]
        for task_id in due:
            self.remove(task_id)
        self._filed_at = now
        for task in due.values():
            self._take(task, now)
        for group in self.groups.values():
            group.forget()

    def _expect(self, now: float) -> None:
        """Note when tasks leave their gates or become aged, once time goes on."""
        if self._edges is None and now > self._filed_at:
            edges = ((self._edge(task_id), task_id) for task_id in self.tasks)
            self._edges = [edge for edge in edges if self._filed_at < edge[0] < NEVER]
            heapq.heapify(self._edges)

    def next_edge(self) -> float:
        """Return when time alone changes the order next."""
        if self._edges is None:
            return min(self._first_gate(), self._first_aged())
        while self._edges and self._edge(self._edges[0][1]) != self._edges[0][0]:
            heapq.heappop(self._edges)
        return self._edges[0][0] if self._edges else NEVER

    def _first_gate(self) -> float:
        return min(
            (task.ready_at for task in self.gated.values() if task.ready_at > self._filed_at), default=NEVER
        )

    def _first_aged(self) -> float:
        """Return when the first task becomes aged; none of a group waits since before the first was submitted."""
        first = NEVER
        for home in chain.from_iterable(self._homes.values()):
            for group in home.groups if home.ages else ():
                for entry in () if group.aged else group.entries:
                    if home.by_time and entry[0] >= first:
                        break
                    first = min(first, waits_since(entry[3]))
        return first + self.policy.aging_s

    def of_phase(self, phase: Phase) -> list[Group]:
        """Return the groups that a phase of the pass tries."""
        return [group for group in self.groups.values() if group.phase == phase]

    def _edge(self, task_id: int) -> float:
        """Return when the task leaves its gate or becomes aged; NEVER where it does neither or waits no more."""
        task = self.tasks.get(task_id)
        if task is None:
            return NEVER
        if task_id in self.gated:
            return task.ready_at
        ages = any(home.ages for home in self._homes[_shape_of(task)])
        return waits_since(task) + self.policy.aging_s if ages else NEVER

    def _file(self, tasks: Iterable[Waiting], now: float, put: Callable[[list[Entry], Entry], None]) -> None:
        """Put the tasks where they belong now, and note when that changes."""
        aging_s, homes, users, edges = self.policy.aging_s, self._homes, self.users, self._edges
        self._filed_at = now
        for task in tasks:
            shape = _shape_of(task)
            if (task.gate or task.ready_at > now) and is_gated(task, now):
                self.gated[task.id] = task
                self._put_edge(task.ready_at, task.id)
                continue
            for home in homes.get(shape) or self._open_homes(shape, task):
                group = home.young
                if home.ages:
                    if now >= task.queued + aging_s and now >= task.ready_at + aging_s:
                        group = home.aged
                    if edges is not None:
                        self._put_edge(waits_since(task) + aging_s, task.id)
                if not group.entries:
                    self._open(group)
                if task.time_limit is not None:
                    group.limited = True
                if home.by_time or group.aged:
                    task_id = task.id
                    entry: Entry = (task.submitted, task_id, task_id, task, group)
                else:
                    entry = _entry(home.order, task, group)
                put(group.entries, entry)
                if home.by_share and not group.aged:
                    put(users[task.business, task.user], entry)
                elif home.by_priority:
                    put(self._high, entry)

    def _open(self, group: Group) -> None:
        """List a group that had no tasks."""
        self.groups[group.phase, group.aged, group.shape] = group
        group.limited = False
        group.forget()

    def _put_edge(self, edge: float, task_id: int) -> None:
        if self._edges is not None and edge > self._filed_at:
            heapq.heappush(self._edges, (edge, task_id))

    def _open_homes(self, shape: "Shape", task: Waiting) -> "tuple[_Home, ...]":
        """Return where tasks of a shape that was not seen before stand, by phase."""
        elastic: tuple[Phase, str] = ("elastic", self.policy.elastic_order)
        phases: dict[str, tuple[tuple[Phase, str], ...]] = {
            "high": (("high", self.policy.high_order),),
            "elastic": (elastic,),
            "auto": (("auto", "submission"), elastic),
        }
        found = tuple(_Home(phase, order, task, shape, self.policy) for phase, order in phases[task.wanted])
        self._homes[shape] = found
        return found

    def rank_priorities(self, now: float) -> float:
        """Let priorities and aging order the tasks of each business; return when that changes.

        The places in line stay the business's own: its tasks take them by level, then by time, so that a
        priority passes no other business.
        """
        if self.policy.high_order != "priority":
            return NEVER
        levels_of = Counter(business for (business, _), tasks in self._levels.items() if tasks)
        mixed = {business for business, levels in levels_of.items() if levels > 1}
        touched = mixed | self._ranked
        self._ranked = mixed
        if not touched:
            return NEVER
        levels, change = self._by_level(mixed, now)
        self._give_places({b: chain(high, medium, low) for b, (low, medium, high) in levels.items()})
        return change

    def _by_level(self, businesses: Iterable[int], now: float) -> tuple[dict[int, Levels], float]:
        """Return the tasks of these businesses by priority with what waiting added, and when one gains the next."""
        levels: dict[int, Levels] = {business: ([], [], []) for business in businesses}
        change, aging_s = NEVER, self.policy.aging_s
        for entry in self._high:
            task = entry[3]
            mine = levels.get(task.business)
            if mine is None:
                continue
            level = task.priority
            if level < TOP_LEVEL and aging_s > 0:
                since = task.queued if task.queued > task.ready_at else task.ready_at
                gained = int((now - since) // aging_s)
                level = min(TOP_LEVEL, level + gained) if gained else level
                if level < TOP_LEVEL:
                    gains = since + (gained + 1) * aging_s
                    change = gains if gains < change else change
            mine[level].append(entry)
        return levels, change

    def _give_places(self, ranked: Mapping[int, Iterator[Entry]]) -> None:
        """Give the places of each business to its tasks as they are ranked."""
        for group in self.of_phase("high"):
            group.entries = []
        for place in self._high:
            turns = ranked.get(place[3].business)
            entry = place if turns is None else next(turns)
            group = entry[4]
            group.entries.append(place if entry is place else (place[0], place[1], entry[2], entry[3], group))


def _entry(order: str, task: Waiting, group: Group) -> Entry:
    if order == "shortest_first":
        length = task.duration if task.duration is not None else task.time_limit
        return (NEVER if length is None else length, task.submitted, task.id, task, group)
    if order == "round_robin":
        return (task.queued, task.submitted, task.id, task, group)
    return (task.submitted, task.id, task.id, task, group)


def _drop(entries: list[Entry], entry: Entry) -> None:
    """Take the task's entry out, where there is one: it may stand in the place of another."""
    task = entry[3]
    place = bisect_left(entries, entry[:3])
    if place < len(entries) and entries[place][3] is task:
        del entries[place]
        return
    for place, other in enumerate(entries):
        if other[3] is task:
            del entries[place]
            return
