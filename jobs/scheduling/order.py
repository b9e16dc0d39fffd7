"""Who is tried before whom: waiting tasks in groups of one shape, and the walks through them."""

import heapq
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from jobs.scheduling.fair import Accounts
from jobs.scheduling.types import Policy, Waiting

Phase = Literal["high", "auto", "elastic"]
Entry = tuple[float, float, int, Waiting]  # two sort keys, the id, the task
UserEntry = tuple[float, int, Waiting, "Group"]  # its submission, its id, the task, its group
Line = tuple[str, frozenset[int]]
TOP_LEVEL = 2  # aging lifts no task above high priority: up there the older goes first
NEVER = float("inf")


class Cause(NamedTuple):
    """Why a task cannot start, and for whom else that holds in this pass."""

    code: str
    detail: float = 0  # a task or a time, by the code
    scope: Literal["group", "owner", "task"] = "group"


class Group:
    """Waiting tasks of one shape: where one finds no place, none of them does."""

    __slots__ = ("aged", "blocked", "cause", "entries", "limited", "line", "phase", "shape", "task")

    def __init__(self, phase: Phase, task: Waiting, shape: Hashable, *, aged: bool) -> None:
        self.phase = phase
        self.aged = aged
        self.shape = shape
        self.task = task  # the first one seen, for what all of them ask
        self.line: Line = (phase, frozenset(task.gpu_types))
        self.entries: list[Entry] = []
        self.limited = False  # some of them have a time limit
        self.cause: Cause | None = None  # why the rest of them waits, in the pass at work
        self.blocked: dict[Hashable, Cause] = {}  # the same for those of one owner

    def owner(self, task: Waiting) -> Hashable:
        """Return whose quota or cap counts for the task."""
        return (task.business, task.user) if self.phase == "elastic" else task.business


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
        self.users: dict[tuple[int, int], list[UserEntry]] = {}  # what fair share orders
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
        queue._file(sorted(waiting, key=attrgetter("id")), now, list.append)
        queue._ranked = set(queue._priorities)
        for group in queue.groups.values():
            group.entries.sort()
        for entries in queue.users.values():
            entries.sort()
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
        due = []
        while self._edges and self._edges[0][0] <= now:
            edge, task_id = heapq.heappop(self._edges)
            if self._is_due(edge, task_id):
                due.append(self.tasks[task_id])
        for task in due:
            self.remove(task.id)
        self._file(due, now, insort)
        for group in self.groups.values():
            group.cause = None
            group.blocked.clear()

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
                put(group.entries, _entry("submission" if aged else order, task))
                if order == "fair_share" and not aged:
                    put(
                        users.setdefault((task.business, task.user), []),
                        (task.submitted, task.id, task, group),
                    )
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
        high = self.of_phase("high") if touched else []
        ranks: dict[int, list[tuple[int, float, int]]] = {business: [] for business in touched}
        change = NEVER
        for group in high:
            for _, _, task_id, task in group.entries:
                if task.business in mixed:
                    level, until = self._level(task, now)
                    if until < change:
                        change = until
                    ranks[task.business].append((-level, task.submitted, task_id))
        place_of: dict[int, tuple[float, int]] = {}
        for ranked in ranks.values():
            ranked.sort()
            in_time = sorted([rank[1:] for rank in ranked])
            place_of.update(zip([rank[2] for rank in ranked], in_time, strict=True))
        for group in high:
            placed: list[Entry] = []
            for _, _, task_id, task in group.entries:
                first, second = place_of.get(task_id) or (task.submitted, task_id)
                placed.append((first, second, task_id, task))
            placed.sort()
            group.entries = placed
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


def _entry(order: str, task: Waiting) -> Entry:
    if order == "shortest_first":
        length = task.duration if task.duration is not None else task.time_limit
        return (NEVER if length is None else length, task.submitted, task.id, task)
    if order == "round_robin":
        return (task.queued, task.submitted, task.id, task)
    return (task.submitted, task.id, task.id, task)


def _drop(entries: list[Any], task: Waiting) -> bool:
    """Take the task's entry out (those that start stand near the front); say whether any are left."""
    for position, entry in enumerate(entries):
        if task is entry[2] or task is entry[3]:
            del entries[position]
            break
    return bool(entries)


def walk(groups: Iterable[Group]) -> Iterator[tuple[Group, Waiting]]:
    """Give the tasks in the order of their entries, the aged first, until their group or owner waits."""
    heap = [(not g.aged, *g.entries[0][:3], 0, g) for g in groups if g.entries]
    heapq.heapify(heap)
    while heap:
        *_, position, group = heap[0]
        entries = group.entries
        if group.cause is None:
            yield group, entries[position][3]
        position += 1
        if group.blocked:
            while position < len(entries) and group.owner(entries[position][3]) in group.blocked:
                position += 1
        if group.cause is None and position < len(entries):
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

    def __iter__(self) -> Iterator[tuple[Group, Waiting]]:
        while self._businesses:
            business = self._businesses[0][3]
            users = self._users[business]
            user = users[0][3]
            owner = (business, user)
            _, _, task, group = self._entries[owner][self._at[owner]]
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
            group = entries[at][3]
            if group.cause is None and owner not in group.blocked:
                self._at[owner] = at
                return True
        return False

    def _user_key(self, business: int, user: int) -> tuple[float, float, int, int]:
        """Return the user's use and his next task."""
        submitted, task_id, _, _ = self._entries[business, user][self._at[business, user]]
        return (self._accounts.read(business, user, self._now), submitted, task_id, user)

    def _business_key(self, business: int) -> tuple[float, float, int, int]:
        """Return the business's use and the next task of its user of least use."""
        return (self._accounts.read(business, None, self._now), *self._users[business][0][1:3], business)
