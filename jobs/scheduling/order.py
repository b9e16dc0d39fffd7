"""Who is tried before whom: waiting tasks in groups of one shape, and the walks through them."""

import heapq
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal

from jobs.scheduling.fair import Accounts
from jobs.scheduling.types import Policy, Waiting

Phase = Literal["high", "auto", "elastic"]
Entry = tuple[float, float, int, Waiting]  # two sort keys, the id, the task
Line = tuple[str, frozenset[int]]
Shape = tuple[object, ...]
TOP_LEVEL = 2  # aging lifts no task above high priority: up there the older goes first


class Group:
    """Waiting tasks that differ only in time: where one finds no place, none of them does."""

    __slots__ = ("aged", "business", "entries", "limited", "line", "phase", "shape", "task", "user")

    def __init__(self, phase: Phase, task: Waiting, shape: Shape, *, aged: bool) -> None:
        self.phase = phase
        self.aged = aged
        self.shape = shape
        self.business = task.business
        self.user = task.user
        self.task = task  # the first one seen, for what all of them ask
        self.line: Line = (phase, frozenset(task.gpu_types))
        self.entries: list[Entry] = []
        self.limited = False  # some of them have a time limit

    def __repr__(self) -> str:
        return f"<{len(self.entries)} {self.phase} {self.shape}>"


def waits_since(task: Waiting) -> float:
    """Return since when the task could have started."""
    return max(task.queued, task.ready_at)


def is_gated(task: Waiting, now: float) -> bool:
    """Say whether something other than cards and quota keeps the task from starting."""
    return task.gate in ("hold", "dependency") or task.ready_at > now


class Queue:
    """All waiting tasks, filed by what they ask; kept up to date by add, remove and advance."""

    def __init__(self, policy: Policy, *, by_user: bool) -> None:
        self.policy = policy
        self.by_user = by_user or policy.elastic_order == "fair_share"  # elastic groups are one user's
        self.tasks: dict[int, Waiting] = {}
        self.gated: dict[int, Waiting] = {}
        self.groups: dict[object, Group] = {}
        self.edges: list[tuple[float, int]] = []  # heap: when a task leaves its gate or becomes aged …
        self._edge_of: dict[int, float] = {}  # … its last word: an older entry of the heap is void
        self.priorities: dict[int, Counter[int]] = defaultdict(Counter)  # of waiting high tasks by business
        self._ranked: set[int] = set()  # businesses whose entries stand in places of others

    @classmethod
    def of(cls, waiting: Iterable[Waiting], policy: Policy, now: float, *, by_user: bool) -> "Queue":
        """Return the queue of a snapshot."""
        queue = cls(policy, by_user=by_user)
        for task in waiting:
            queue._register(task)
            for group, entry in queue._file(task, now):
                group.entries.append(entry)
        for group in queue.groups.values():
            group.entries.sort()
        heapq.heapify(queue.edges)
        return queue

    def add(self, task: Waiting, now: float) -> None:
        """File one more task."""
        self._register(task)
        edges = len(self.edges)
        self._insert(task, now)
        if len(self.edges) > edges:
            heapq.heapify(self.edges)

    def remove(self, task_id: int) -> None:
        """Take the task out of the queue: it started or ended."""
        task = self.tasks.pop(task_id)
        self.gated.pop(task_id, None)
        self._edge_of.pop(task_id, None)
        if task.wanted == "high":
            self.priorities[task.business][task.priority] -= 1
        self._unfile(task)

    def advance(self, now: float) -> None:
        """File anew whoever left a gate or became aged since."""
        changed = False
        while self.edges and self.edges[0][0] <= now:
            edge, task_id = heapq.heappop(self.edges)
            if self._edge_of.get(task_id) == edge:
                task = self.tasks[task_id]
                self.gated.pop(task_id, None)
                self._unfile(task)
                self._insert(task, now)
                changed = True
        if changed:
            heapq.heapify(self.edges)

    def next_edge(self) -> float:
        """Return when time alone changes the order next."""
        while self.edges and self._edge_of.get(self.edges[0][1]) != self.edges[0][0]:
            heapq.heappop(self.edges)
        return self.edges[0][0] if self.edges else float("inf")

    def _register(self, task: Waiting) -> None:
        self.tasks[task.id] = task
        if task.wanted == "high":
            self.priorities[task.business][task.priority] += 1

    def _insert(self, task: Waiting, now: float) -> None:
        for group, entry in self._file(task, now):
            insort(group.entries, entry)

    def _unfile(self, task: Waiting) -> None:
        for aged in (False, True):
            for phase, _ in _phases(task, self.policy):
                key, _ = self._key(phase, task, aged=aged)
                group = self.groups.get(key)
                if group is None:
                    continue
                for position, entry in enumerate(group.entries):
                    if entry[2] == task.id:
                        del group.entries[position]
                        break
                if not group.entries:
                    del self.groups[key]

    def _key(self, phase: Phase, task: Waiting, *, aged: bool) -> tuple[object, Shape]:
        types = (task.any_type, *task.gpu_types)
        shape = (types, task.region, task.host_num, task.host_gpu_num, task.needs, task.avoid)
        if phase != "elastic":
            return (phase, aged, shape, task.business), shape
        if self.by_user:
            return (phase, aged, shape, task.business, task.user), shape
        return (phase, aged, shape), shape

    def _file(self, task: Waiting, now: float) -> Iterator[tuple[Group, Entry]]:
        """Give the groups where the task belongs now, and its entry there; note when that changes."""
        if is_gated(task, now):
            self.gated[task.id] = task
            if task.gate not in ("hold", "dependency"):
                self._note_edge(task.ready_at, task.id)
            return
        for phase, order in _phases(task, self.policy):
            aged = False
            if self.policy.aging_s > 0 and order != "priority":
                edge = waits_since(task) + self.policy.aging_s
                aged = now >= edge
                if not aged:
                    self._note_edge(edge, task.id)
            key, shape = self._key(phase, task, aged=aged)
            group = self.groups.get(key)
            if group is None:
                group = self.groups[key] = Group(phase, task, shape, aged=aged)
            group.limited = group.limited or task.time_limit is not None
            yield group, _entry(order, task, aged=aged)

    def _note_edge(self, at: float, task_id: int) -> None:
        self.edges.append((at, task_id))
        self._edge_of[task_id] = at

    # Priorities order the tasks of one business among themselves: the places in line stay the business's

    def rank_priorities(self, now: float) -> float:
        """Give a business's places in line to its tasks by priority and aging; return when that changes."""
        if self.policy.high_order != "priority":
            return float("inf")
        mixed = {b for b, counts in self.priorities.items() if sum(n > 0 for n in counts.values()) > 1}
        change = float("inf")
        by_business: dict[int, list[Group]] = defaultdict(list)
        for group in self.groups.values() if mixed or self._ranked else ():
            if group.phase == "high":
                by_business[group.business].append(group)
        for business in sorted(mixed | self._ranked):
            groups = by_business[business]
            tasks = [entry[3] for group in groups for entry in group.entries]
            self._rank(groups, tasks, now, by_level=business in mixed)
            if business in mixed:
                change = min([change, *(self._next_level_at(task, now) for task in tasks)])
        self._ranked = mixed
        return change

    def _rank(self, groups: list[Group], tasks: list[Waiting], now: float, *, by_level: bool) -> None:
        places = sorted((task.submitted, task.id) for task in tasks)
        if by_level:
            tasks.sort(key=lambda task: (-self._level(task, now), task.submitted, task.id))
        else:
            tasks.sort(key=lambda task: (task.submitted, task.id))
        place_of = {task.id: place for task, place in zip(tasks, places, strict=True)}
        for group in groups:
            group.entries = sorted((*place_of[e[2]], e[2], e[3]) for e in group.entries)

    def _level(self, task: Waiting, now: float) -> int:
        if self.policy.aging_s <= 0:
            return task.priority
        return min(TOP_LEVEL, task.priority + int((now - waits_since(task)) // self.policy.aging_s))

    def _next_level_at(self, task: Waiting, now: float) -> float:
        gained = self._level(task, now) - task.priority
        if self.policy.aging_s <= 0 or task.priority + gained >= TOP_LEVEL:
            return float("inf")
        return waits_since(task) + (gained + 1) * self.policy.aging_s


def _phases(task: Waiting, policy: Policy) -> tuple[tuple[Phase, str], ...]:
    """Return the phases of the pass that try the task, each with its order."""
    if task.wanted == "high":
        return (("high", policy.high_order),)
    if task.wanted == "elastic":
        return (("elastic", policy.elastic_order),)
    return ("auto", "priority"), (
        "elastic",
        policy.elastic_order,
    )  # all autos are of one priority: by submission


def _entry(order: str, task: Waiting, *, aged: bool) -> Entry:
    if order == "shortest_first" and not aged:
        length = task.duration if task.duration is not None else task.time_limit
        return (float("inf") if length is None else length, task.submitted, task.id, task)
    if order == "round_robin" and not aged:
        return (task.queued, task.submitted, task.id, task)
    return (task.submitted, task.id, task.id, task)


class Walk:
    """Go through groups in the order of their entries, the aged before the others."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._heap = [(not g.aged, *g.entries[0][:3], 0, g) for g in groups if g.entries]
        heapq.heapify(self._heap)

    def peek(self) -> tuple[Group, int] | None:
        """Return the group whose turn it is and the position of its entry there."""
        return (self._heap[0][5], self._heap[0][4]) if self._heap else None

    def step(self) -> None:
        """Go on to the next entry."""
        *_, position, group = self._heap[0]
        position += 1
        if position == len(group.entries):
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (not group.aged, *group.entries[position][:3], position, group))

    def drop(self) -> None:
        """Leave out the rest of this group."""
        heapq.heappop(self._heap)


class FairWalk:
    """Go on with the business of least use, in it with the user of least use, in his order of submission."""

    def __init__(self, groups: Iterable[Group], accounts: Accounts, now: float) -> None:
        self._accounts = accounts
        self._now = now
        users: dict[tuple[int, int], list[tuple[float, float, int, int, Group]]] = defaultdict(list)
        for group in groups:
            if group.entries:
                users[group.business, group.user].append((*group.entries[0][:3], 0, group))
        self._users = users
        self._members: dict[int, list[tuple[float, float, float, int, int]]] = defaultdict(list)
        for (business, user), heads in users.items():
            heapq.heapify(heads)
            self._members[business].append(self._user_key(business, user))
        self._businesses = []
        for business, members in self._members.items():
            heapq.heapify(members)
            self._businesses.append(self._business_key(business))
        heapq.heapify(self._businesses)

    def _user_key(self, business: int, user: int) -> tuple[float, float, float, int, int]:
        return (self._accounts.read(business, user, self._now), *self._users[business, user][0][:3], user)

    def _business_key(self, business: int) -> tuple[float, float, float, int, int]:
        return (self._accounts.read(business, None, self._now), *self._members[business][0][1:4], business)

    def peek(self) -> tuple[Group, int] | None:
        """Return the group whose turn it is and the position of its entry there."""
        if not self._businesses:
            return None
        business = self._businesses[0][4]
        *_, position, group = self._users[business, self._members[business][0][4]][0]
        return group, position

    def step(self) -> None:
        """Go on to the next entry; a start was charged before, and changes whose turn it is."""
        heads = self._heads()
        *_, position, group = heads[0]
        position += 1
        if position == len(group.entries):
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (*group.entries[position][:3], position, group))
        self._settle()

    def drop(self) -> None:
        """Leave out the rest of this group."""
        heapq.heappop(self._heads())
        self._settle()

    def _heads(self) -> list[tuple[float, float, int, int, Group]]:
        business = self._businesses[0][4]
        return self._users[business, self._members[business][0][4]]

    def _settle(self) -> None:
        """Put the user and the business whose turn it was where they belong now."""
        business = self._businesses[0][4]
        members = self._members[business]
        user = members[0][4]
        if self._users[business, user]:
            heapq.heapreplace(members, self._user_key(business, user))
        else:
            heapq.heappop(members)
        if members:
            heapq.heapreplace(self._businesses, self._business_key(business))
        else:
            heapq.heappop(self._businesses)
