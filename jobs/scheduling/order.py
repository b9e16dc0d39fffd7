"""Who is tried before whom: waiting tasks in groups of one shape, and the walks through them."""

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from jobs.scheduling.fair import Accounts
from jobs.scheduling.types import Policy, Waiting

Phase = Literal["high", "auto", "elastic"]
Entry = tuple[float, float, int, Waiting, "Group"]  # two sort keys, the id, the task, its group
Line = tuple[str, frozenset[int]]
BY_TIME = ("priority", "submission", "fifo", "fair_share")  # orders whose entries stand by first submission
LOW, MEDIUM, HIGH = 0, 1, 2
TOP_LEVEL = HIGH  # aging lifts no task above high priority: up there the older goes first
NEVER = float("inf")


class Cause(NamedTuple):
    """Why a task cannot start, and for whom else that holds in this pass."""

    code: str
    detail: float = 0  # a task or a time, by the code
    scope: Literal["group", "owner", "task"] = "group"
    limit: float = 0.0  # of those it holds for whoever may run at least so long, in seconds


class Group:
    """Waiting tasks of one shape: where one finds no place, none of them does."""

    __slots__ = ("aged", "cause", "entries", "limited", "line", "partly", "phase", "shape", "single", "task")

    def __init__(self, phase: Phase, task: Waiting, shape: Hashable, *, aged: bool) -> None:
        self.phase = phase
        self.aged = aged
        self.shape = shape
        self.task = task  # the first one seen, for what all of them ask
        self.line: Line = (phase, frozenset(task.gpu_types))
        self.entries: list[Entry] = []
        self.limited = False  # some of them have a time limit
        self.cause: Cause | None = None  # why the rest of them waits, in the pass at work
        self.partly: dict[Hashable, Cause] = {}  # the same for some: those of one owner, or (None) of all
        self.single: dict[int, Cause] = {}  # the same for one task

    def owner(self, task: Waiting) -> Hashable:
        """Return whose quota or cap counts for the task."""
        return (task.business, task.user) if self.phase == "elastic" else task.business

    def note(self, task: Waiting, cause: Cause) -> None:
        """Note why the task waits, for all for whom that holds."""
        if cause.scope == "task":
            self.single[task.id] = cause
        elif cause.scope == "owner":
            self.partly[self.owner(task)] = cause
        elif cause.limit:
            self.partly[None] = cause
        else:
            self.cause = cause
            self.partly = {key: known for key, known in self.partly.items() if not known.limit}

    def why(self, task: Waiting) -> Cause | None:
        """Return why the task waits, as far as that is known from others of the group."""
        if self.cause is not None:
            return self.cause
        for key in (None, self.owner(task)) if self.partly else ():
            cause = self.partly.get(key)
            if cause is not None and (task.time_limit is None or task.time_limit >= cause.limit):
                return cause
        return self.single.get(task.id) if self.single else None

    def forget(self) -> None:
        """Forget what the last pass noted."""
        self.cause = None
        self.partly.clear()
        self.single.clear()


def waits_since(task: Waiting) -> float:
    """Return since when the task could have started."""
    return task.queued if task.queued > task.ready_at else task.ready_at


def is_gated(task: Waiting, now: float) -> bool:
    """Say whether something other than cards and quota keeps the task from starting."""
    return task.ready_at > now or task.gate in ("hold", "dependency")


class Queue:
    """All waiting tasks, filed by what they ask; kept up to date by add, remove and advance."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.tasks: dict[int, Waiting] = {}
        self.gated: dict[int, Waiting] = {}
        self.groups: dict[Hashable, Group] = {}
        self.users: dict[tuple[int, int], list[Entry]] = {}  # what fair share orders
        self._high: list[Entry] = []  # high tasks by first submission, where priorities order them
        self._priorities: dict[int, dict[int, int]] = {}  # of waiting high tasks by business
        self._ranked: set[int] = set()  # businesses whose entries may stand in places of others
        self._edges: list[tuple[float, int]] = []  # heap: when a task leaves its gate or becomes aged
        elastic: tuple[Phase, str] = ("elastic", policy.elastic_order)
        self._phases: dict[str, tuple[tuple[Phase, str], ...]] = {
            "high": (("high", policy.high_order),),
            "elastic": (elastic,),
            "auto": (("auto", "submission"), elastic),
        }

    @classmethod
    def of(cls, waiting: Iterable[Waiting], policy: Policy, now: float) -> "Queue":
        """Return the queue of a snapshot."""
        queue = cls(policy)
        in_time = sorted(sorted(waiting, key=attrgetter("id")), key=attrgetter("submitted"))
        queue._file(in_time, now, list.append)
        queue._ranked = set(queue._priorities)
        for phase, order in (("high", policy.high_order), ("elastic", policy.elastic_order)):
            for group in queue.of_phase(phase) if order not in BY_TIME else ():  # type: ignore[arg-type]
                group.entries.sort()
        return queue

    def add(self, task: Waiting, now: float) -> None:
        """File one more task."""
        self._file([task], now, insort)

    def remove(self, task_id: int) -> None:
        """Take the task out of the queue: it started or ended."""
        task = self.tasks.pop(task_id)
        self.gated.pop(task_id, None)
        if task.wanted == "high":
            self._priorities[task.business][task.priority] -= 1
            place = bisect_left(self._high, (task.submitted, task_id))
            if place < len(self._high) and self._high[place][2] == task_id:
                del self._high[place]
        for phase, _ in self._phases[task.wanted]:
            for aged in (False, True):
                key = _key(phase, task, aged=aged)
                group = self.groups.get(key)
                if group is not None and not _drop(group.entries, task):
                    del self.groups[key]
        mine = self.users.get((task.business, task.user))
        if mine is not None and not _drop(mine, task):
            del self.users[task.business, task.user]

    def advance(self, now: float) -> None:
        """File anew whoever left a gate or became aged since, and forget what the last pass noted."""
        due = {}  # once each: an edge of an earlier wait may fall on the same instant
        while self._edges and self._edges[0][0] <= now:
            edge, task_id = heapq.heappop(self._edges)
            if self._is_due(edge, task_id):
                due[task_id] = self.tasks[task_id]
        for task_id in due:
            self.remove(task_id)
        self._file(due.values(), now, insort)
        for group in self.groups.values():
            group.forget()

    def next_edge(self) -> float:
        """Return when time alone changes the order next."""
        while self._edges and not self._is_due(*self._edges[0]):
            heapq.heappop(self._edges)
        return self._edges[0][0] if self._edges else NEVER

    def of_phase(self, phase: Phase) -> list[Group]:
        """Return the groups that a phase of the pass tries."""
        return [group for group in self.groups.values() if group.phase == phase]

    def _is_due(self, edge: float, task_id: int) -> bool:
        """Say whether the edge is the task's still: it may have started and come back since."""
        task = self.tasks.get(task_id)
        if task is None:
            return False
        return edge == (task.ready_at if task_id in self.gated else waits_since(task) + self.policy.aging_s)

    def _file(self, tasks: Iterable[Waiting], now: float, put: Callable[[list[Any], Any], None]) -> None:
        """Put the tasks where they belong now, and note when that changes."""
        groups, users, edges, aging_s = self.groups, self.users, self._edges, self.policy.aging_s
        for task in tasks:
            self.tasks[task.id] = task
            if task.wanted == "high":
                counts = self._priorities.setdefault(task.business, {})
                counts[task.priority] = counts.get(task.priority, 0) + 1
            if (task.gate or task.ready_at > now) and is_gated(task, now):
                self.gated[task.id] = task
                if task.ready_at > now:
                    edges.append((task.ready_at, task.id))
                continue
            for phase, order in self._phases[task.wanted]:
                aged = False
                if aging_s > 0 and order not in ("priority", "submission"):
                    edge = waits_since(task) + aging_s
                    aged = now >= edge
                    if not aged:
                        edges.append((edge, task.id))
                key = _key(phase, task, aged=aged)
                group = groups.get(key)
                if group is None:
                    group = groups[key] = Group(phase, task, key[2:], aged=aged)
                if task.time_limit is not None:
                    group.limited = True
                entry = _entry("submission" if aged else order, task, group)
                put(group.entries, entry)
                if order == "priority":
                    put(self._high, entry)
                elif order == "fair_share" and not aged:
                    put(users.setdefault((task.business, task.user), []), entry)
        heapq.heapify(edges)

    def rank_priorities(self, now: float) -> float:
        """Let priorities and aging order the tasks of each business; return when that changes.

        The places in line stay the business's own: its tasks take them by level, then by time, so that a
        priority passes no other business.
        """
        if self.policy.high_order != "priority":
            return NEVER
        mixed = {b for b, counts in self._priorities.items() if sum(n > 0 for n in counts.values()) > 1}
        touched = mixed | self._ranked
        self._ranked = mixed
        if not touched:
            return NEVER
        levels: dict[int, tuple[list[Entry], list[Entry], list[Entry]]] = {b: ([], [], []) for b in mixed}
        change = NEVER
        for entry in self._high:
            task = entry[3]
            if task.business in levels:
                level, until = self._level(task, now)
                change = min(change, until)
                levels[task.business][level].append(entry)
        ranked = {b: chain(high, medium, low) for b, (low, medium, high) in levels.items()}
        for group in self.of_phase("high"):
            group.entries = []
        for place in self._high:
            business = place[3].business
            _, _, task_id, task, group = next(ranked[business]) if business in ranked else place
            group.entries.append((place[0], place[1], task_id, task, group))
        return change

    def _level(self, task: Waiting, now: float) -> tuple[int, float]:
        """Return the task's priority with what waiting added to it, and when it gains the next level."""
        aging_s, level = self.policy.aging_s, task.priority
        if aging_s <= 0 or level >= TOP_LEVEL:
            return level, NEVER
        since = task.queued if task.queued > task.ready_at else task.ready_at
        gained = int((now - since) // aging_s)
        if level + gained >= TOP_LEVEL:
            return TOP_LEVEL, NEVER
        return level + gained, since + (gained + 1) * aging_s


def _key(phase: Phase, task: Waiting, *, aged: bool) -> tuple[Hashable, ...]:
    plain = (phase, aged, task.gpu_types, task.host_gpu_num, task.host_num, task.region)
    if task.avoid or task.any_type or task.needs != "process":
        return (*plain, task.avoid, task.any_type, task.needs)
    return plain


def _entry(order: str, task: Waiting, group: Group) -> Entry:
    if order == "shortest_first":
        length = task.duration if task.duration is not None else task.time_limit
        return (NEVER if length is None else length, task.submitted, task.id, task, group)
    if order == "round_robin":
        return (task.queued, task.submitted, task.id, task, group)
    return (task.submitted, task.id, task.id, task, group)


def _drop(entries: list[Entry], task: Waiting) -> bool:
    """Take the task's entry out (those that start stand near the front); say whether any are left."""
    for position, entry in enumerate(entries):
        if task is entry[3]:
            del entries[position]
            break
    return bool(entries)


Turn = tuple[Group, Waiting]


def walk(groups: Iterable[Group], passes_over: Callable[[Group, Waiting], bool]) -> Iterator[Turn]:
    """Give the tasks in the order of their entries, the aged first, but for those that are passed over."""
    heap = [(not g.aged, *g.entries[0][:3], 0, g) for g in groups if g.entries]
    heapq.heapify(heap)
    while heap:
        *_, position, group = heap[0]
        entries = group.entries
        if group.cause is None:
            yield group, entries[position][3]
        position += 1
        end = len(entries) if group.cause is None else 0
        while position < end and passes_over(group, entries[position][3]):
            position += 1
        if position < end:
            heapq.heapreplace(heap, (not group.aged, *entries[position][:3], position, group))
        else:
            heapq.heappop(heap)


class FairWalk:
    """Goes on with the business of least use, in it with the user of least use, and his oldest task."""

    def __init__(self, queue: Queue, accounts: Accounts, now: float) -> None:
        self._accounts = accounts
        self._now = now
        self._entries = queue.users
        self._at = dict.fromkeys(queue.users, 0)  # how far each user has come
        self._users: dict[int, list[tuple[float, float, int, int]]] = defaultdict(list)
        for business, user in queue.users:
            self._users[business].append(self._user_key(business, user))
        for users in self._users.values():
            heapq.heapify(users)
        self._businesses = [self._business_key(business) for business in self._users]
        heapq.heapify(self._businesses)

    def __iter__(self) -> Iterator[Turn]:
        while self._businesses:
            business = self._businesses[0][3]
            users = self._users[business]
            user = users[0][3]
            owner = (business, user)
            _, _, _, task, group = self._entries[owner][self._at[owner]]
            if group.cause is None:
                yield group, task
            if self._go_on(owner):
                heapq.heapreplace(users, self._user_key(business, user))
            else:
                heapq.heappop(users)
            if users:
                heapq.heapreplace(self._businesses, self._business_key(business))
            else:
                heapq.heappop(self._businesses)

    def _go_on(self, owner: tuple[int, int]) -> bool:
        """Go to the user's next task that is still to be tried, if there is one."""
        entries = self._entries[owner]
        for at in range(self._at[owner] + 1, len(entries)):
            _, _, _, task, group = entries[at]
            if group.cause is None and not (group.partly and group.why(task)):
                self._at[owner] = at
                return True
        return False

    def _user_key(self, business: int, user: int) -> tuple[float, float, int, int]:
        """Return the user's use and his next task."""
        submitted, _, task_id, _, _ = self._entries[business, user][self._at[business, user]]
        return (self._accounts.read(business, user, self._now), submitted, task_id, user)

    def _business_key(self, business: int) -> tuple[float, float, int, int]:
        """Return the business's use and the next task of its user of least use."""
        return (self._accounts.read(business, None, self._now), *self._users[business][0][1:3], business)
