"""Waiting tasks of one shape in the order of their class, and why those of them wait that do not start."""

from bisect import bisect_left
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal, NamedTuple

from jobs.scheduling.types import NEVER, Waiting

Phase = Literal["high", "auto", "elastic"]
Line = tuple[str, frozenset[int]]
Place = tuple[float, float, int]  # where a task stands in line: two sort keys and its id

by_time: Callable[[Waiting], Place] = attrgetter("submitted", "id", "id")


def _by_length(task: Waiting) -> Place:
    length = task.duration if task.duration is not None else task.time_limit
    return (NEVER if length is None else length, task.submitted, task.id)


# Where a task stands of itself, in the orders that do not go by first submission.
PLACES: dict[str, Callable[[Waiting], Place]] = {
    "shortest_first": _by_length,
    "round_robin": attrgetter("queued", "submitted", "id"),
}


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
    own: Callable[[Waiting], Place]  # the place of a task, but where it was given that of another
    line: Line = field(init=False)
    tasks: list[Waiting] = field(default_factory=list)  # in line
    places: list[Waiting] = field(init=False)  # whose place each has: `tasks` itself where all have their own
    limited: bool = False  # some of them have a time limit
    cause: Cause | None = None  # why the rest of them waits, in the pass at work
    longer: Cause | None = None  # the same for those who may run so long as it says
    by_owner: dict[Hashable, Cause] = field(default_factory=dict)  # the same for those of one owner
    parted: bool = False  # there are such
    single: dict[int, Cause] = field(default_factory=dict)  # the same for one task

    def __post_init__(self) -> None:
        self.line = (self.phase, frozenset(self.task.gpu_types))
        self.places = self.tasks

    def place(self, at: int) -> Place:
        """Return where the task at this position stands among those of all groups."""
        place = self.own(self.places[at])
        return place if self.places is self.tasks else (place[0], place[1], self.tasks[at].id)

    def insert(self, task: Waiting) -> None:
        """Let the task stand in its own place."""
        at = bisect_left(self.places, self.own(task), key=self.own)
        self.tasks.insert(at, task)
        if self.places is not self.tasks:
            self.places.insert(at, task)

    def drop(self, task: Waiting) -> None:
        """Take the task out, where it is there: it may stand in the place of another."""
        at = bisect_left(self.places, self.own(task), key=self.own)
        if at == len(self.tasks) or self.tasks[at] is not task:
            if self.places is self.tasks or task not in self.tasks:
                return
            at = self.tasks.index(task)
        del self.tasks[at]
        if self.places is not self.tasks:
            del self.places[at]

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


class InTime:
    """Waiting tasks in the order of their first submission, each with its group."""

    __slots__ = ("groups", "tasks")

    def __init__(self) -> None:
        self.tasks: list[Waiting] = []
        self.groups: list[Group] = []

    def insert(self, task: Waiting, group: Group) -> None:
        """Put the task where it belongs."""
        at = bisect_left(self.tasks, by_time(task), key=by_time)
        self.tasks.insert(at, task)
        self.groups.insert(at, group)

    def drop(self, task: Waiting) -> None:
        """Take the task out, where it is there."""
        at = bisect_left(self.tasks, by_time(task), key=by_time)
        if at < len(self.tasks) and self.tasks[at] is task:
            del self.tasks[at], self.groups[at]
