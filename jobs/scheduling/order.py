"""Who is tried before whom: the walks through the groups of waiting tasks."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from jobs.scheduling.fair import Accounts
from jobs.scheduling.queue import Group, Queue
from jobs.scheduling.types import Waiting

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
            entry = entries[at]
            group = entry[4]
            if group.cause is None and not (group.partly and group.why_apart(entry[3])):
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


def elastic_turns(
    queue: Queue, accounts: Accounts, now: float, passes_over: Callable[[Group, Waiting], bool]
) -> Iterator[Turn]:
    """Give the elastic tasks in the policy's order; with fair share those that waited too long go first."""
    groups = queue.of_phase("elastic")
    if queue.policy.elastic_order != "fair_share":
        yield from walk(groups, passes_over)
        return
    yield from walk([group for group in groups if group.aged], passes_over)
    yield from FairWalk(queue, accounts, now)
