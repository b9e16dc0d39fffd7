"""The waiting tasks in groups of one shape, each in the order of its class, kept up to date as they come and go."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter

from jobs.scheduling.groups import PLACES, Group, InTime, Phase, by_time
from jobs.scheduling.types import NEVER, Policy, Waiting

Levels = tuple[list[int], list[int], list[int]]  # low, medium, high
TOP_LEVEL = 2  # aging lifts no task above high priority: up there the older goes first


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

    __slots__ = ("aged", "ages", "by_priority", "by_share", "by_time", "young")

    def __init__(self, phase: Phase, order: str, task: Waiting, shape: Shape, policy: Policy) -> None:
        self.by_time = order not in PLACES  # they stand by first submission, or in places that others had so
        self.by_priority, self.by_share = order == "priority", order == "fair_share"
        self.ages = policy.aging_s > 0 and order not in ("priority", "submission")
        self.young = self.aged = Group(phase, task, shape, aged=False, own=PLACES.get(order, by_time))
        if self.ages:
            self.aged = Group(phase, task, shape, aged=True, own=by_time)

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
        self.users: dict[tuple[int, int], InTime] = defaultdict(InTime)  # what fair share orders
        self._homes: dict[Shape, tuple[_Home, ...]] = {}
        self._high = InTime()  # high tasks by first submission, where priorities order them
        self._levels: Counter[tuple[int, int]] = Counter()  # high tasks by business and priority
        self._filed_at = float("-inf")  # the latest instant that the tasks were filed for
        self._ranked: set[int] = set()  # businesses whose tasks may stand in places of others
        self._edges: list[tuple[float, int]] | None = []  # heap: when a task leaves its gate or becomes aged

    @classmethod
    def of(cls, waiting: Iterable[Waiting], policy: Policy, now: float) -> "Queue":
        """Return the queue of a snapshot."""
        queue = cls(policy)
        queue._edges = None  # made when time goes on: most queues are used for one instant only
        in_time = sorted(sorted(waiting, key=_id_of), key=attrgetter("submitted"))
        queue.tasks = dict(zip(map(_id_of, in_time), in_time, strict=True))
        queue._levels.update(map(_level_of, [task for task in in_time if task.wanted == "high"]))
        queue._file(in_time, now, last=True)
        for home in chain.from_iterable(queue._homes.values()):
            if not home.by_time:
                for group in home.groups:
                    group.tasks.sort(key=group.own)
        return queue

    def add(self, task: Waiting, now: float) -> None:
        """File one more task."""
        self._expect(now)  # before it moves on the instant that the others were filed for
        self._take(task, now)

    def _take(self, task: Waiting, now: float) -> None:
        self.tasks[task.id] = task
        if task.wanted == "high":
            self._levels[_level_of(task)] += 1
        self._file((task,), now, last=False)

    def remove(self, task_id: int) -> None:
        """Take the task out of the queue: it started or ended."""
        task = self.tasks.pop(task_id)
        if task.wanted == "high":
            self._levels[_level_of(task)] -= 1
        if self.gated.pop(task_id, None):
            return
        for home in self._homes[_shape_of(task)]:
            for group in home.groups:
                group.drop(task)
                if not group.tasks:
                    self.groups.pop((group.phase, group.aged, group.shape), None)
            if home.by_priority:
                self._high.drop(task)
            mine = self.users.get((task.business, task.user)) if home.by_share else None
            if mine is not None:
                mine.drop(task)
                if not mine.tasks:
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
                for task in () if group.aged else group.tasks:
                    if home.by_time and task.submitted >= first:
                        break
                    first = min(first, waits_since(task))
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

    def _file(self, tasks: Iterable[Waiting], now: float, *, last: bool) -> None:
        """Put the tasks where they belong now, note when that changes; `last`: each comes after those before it."""
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
                if not group.tasks:
                    self._open(group)
                if task.time_limit is not None:
                    group.limited = True
                if home.by_share:
                    line = None if group.aged else users[task.business, task.user]
                else:
                    line = self._high if home.by_priority else None
                if not last:
                    self._insert(task, group, line)
                    continue
                group.tasks.append(task)
                if line is not None:
                    line.tasks.append(task)
                    line.groups.append(group)

    def _insert(self, task: Waiting, group: Group, line: InTime | None) -> None:
        group.insert(task)
        if line is not None:
            line.insert(task, group)

    def _open(self, group: Group) -> None:
        """List a group that had no tasks."""
        self.groups[group.phase, group.aged, group.shape] = group
        group.limited, group.places = False, group.tasks
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
        """Return where they stand in time by priority with what waiting added, and when one of them gains the next."""
        levels: dict[int, Levels] = {business: ([], [], []) for business in businesses}
        change, aging_s = NEVER, self.policy.aging_s
        for at, task in enumerate(self._high.tasks):
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
            mine[level].append(at)
        return levels, change

    def _give_places(self, ranked: Mapping[int, Iterator[int]]) -> None:
        """Give the places of each business to its tasks as they are ranked."""
        for group in self.of_phase("high"):
            group.tasks, group.places = [], []
        tasks, groups = self._high.tasks, self._high.groups
        for at, place in enumerate(tasks):
            turns = ranked.get(place.business)
            taker = at if turns is None else next(turns)
            group = groups[taker]
            group.tasks.append(tasks[taker])
            group.places.append(place)
