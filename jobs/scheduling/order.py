"""Who is tried before whom: the walks through the groups of waiting tasks."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from jobs.scheduling.fair import Accounts
from jobs.scheduling.groups import NO_QUOTA, Group
from jobs.scheduling.queue import Queue
from jobs.scheduling.types import Waiting
from jobs.scheduling.work import Work

Turn = tuple[Group, Waiting]


# The first position in a group, from this one on, that is not passed over.
Following = Callable[[Group, int], int]


def one_by_one(_: Group, at: int) -> int:
    """Pass nobody over."""
    return at


def first_open(group: Group, at: int) -> int:
    """Pass over those who wait for what others of their group wait for."""
    tasks = group.tasks
    end = len(tasks)
    while at < end and group.parted and group.keeps(tasks[at]):
        at += 1
    return at


def within_quota(work: Work) -> Following:
    """Return what also passes over high tasks for whom their business has no quota left.

    Those that waited too long for it get their turn: quota may have to be kept for them.
    """
    ledger = work.cluster.ledger
    if work.cluster.keepers:
        return first_open  # the quota may be that of the business's own kept places

    def lacks_quota(task: Waiting) -> bool:
        cards = task.host_num * task.host_gpu_num
        for gpu_type in task.gpu_types:
            if ledger.high_caps(task.business, gpu_type).total >= cards:
                return False
        return not work.is_aged(task)

    def following(group: Group, start: int) -> int:
        tasks, by_owner = group.tasks, group.by_owner
        for at in range(start, len(tasks)):
            task = tasks[at]
            cause = by_owner.get(task.business)
            if (cause is not None and not cause.limit) or group.keeps(task):
                continue  # most wait for quota, as others of their business do
            if not lacks_quota(task):
                return at
            by_owner[task.business], group.parted = NO_QUOTA, True
        return len(tasks)

    return following


def walk(groups: Iterable[Group], following: Following) -> Iterator[Turn]:
    """Give the tasks in the order of their places, the aged first, but for those that are passed over."""
    heap = [(not g.aged, g.place(0), 0, g) for g in groups if g.tasks]
    heapq.heapify(heap)
    while heap:
        _, _, at, group = heap[0]
        tasks = group.tasks
        if group.cause is None:
            yield group, tasks[at]
        at = following(group, at + 1) if group.cause is None else len(tasks)
        if at < len(tasks):
            heapq.heapreplace(heap, (not group.aged, group.place(at), at, group))
        else:
            heapq.heappop(heap)


class FairWalk:
    """Goes on with the business of least use, in it with the user of least use, and his oldest task."""

    def __init__(self, queue: Queue, accounts: Accounts, now: float) -> None:
        self._accounts = accounts
        self._now = now
        self._lines = queue.users
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
            line, at = self._lines[owner], self._at[owner]
            group = line.groups[at]
            if group.cause is None:
                yield group, line.tasks[at]
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
        tasks, groups = self._lines[owner].tasks, self._lines[owner].groups
        for at in range(self._at[owner] + 1, len(tasks)):
            group = groups[at]
            if group.cause is None and not (group.parted and group.keeps(tasks[at])):
                self._at[owner] = at
                return True
        return False

    def _user_key(self, business: int, user: int) -> tuple[float, float, int, int]:
        """Return the user's use and his next task."""
        task = self._lines[business, user].tasks[self._at[business, user]]
        return (self._accounts.read(business, user, self._now), task.submitted, task.id, user)

    def _business_key(self, business: int) -> tuple[float, float, int, int]:
        """Return the business's use and the next task of its user of least use."""
        return (self._accounts.read(business, None, self._now), *self._users[business][0][1:3], business)


def elastic_turns(queue: Queue, accounts: Accounts, now: float, following: Following) -> Iterator[Turn]:
    """Give the elastic tasks in the policy's order; with fair share those that waited too long go first."""
    groups = queue.of_phase("elastic")
    if queue.policy.elastic_order != "fair_share":
        yield from walk(groups, following)
        return
    yield from walk([group for group in groups if group.aged], following)
    yield from FairWalk(queue, accounts, now)
