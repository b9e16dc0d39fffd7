"""What becomes of the tasks on a host that takes no more of them: the very same pass on a changed snapshot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from jobs.scheduling.decide import decide
from jobs.scheduling.types import NEVER, Evict, HostState, Policy, Running, Snapshot, Start
from jobs.simulation.forecast import HORIZON_S, Ahead, Estimate, as_waiting
from jobs.simulation.lengths import Lengths

EndSource = Literal["limit", "past", "kept", "leaving", ""]  # "": nobody knows when it ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A task that is evicted, and how it goes on."""

    task: int
    cards: int  # on the host
    # When it runs again; None: it is not queued, or it was not looked far enough.
    back: Estimate | None = None
    where: Mapping[int, int] = field(default_factory=dict)  # host → cards, of that start


@dataclass(frozen=True, slots=True, kw_only=True)
class Stayer:
    """A task that goes on there until it ends."""

    task: int
    cards: int
    ends_at: float | None
    source: EndSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the next passes would do otherwise if the host were in another state."""

    leavers: tuple[Leaver, ...]
    stayers: tuple[Stayer, ...]
    elsewhere: tuple[Evict, ...]  # evictions on other hosts that would not be ordered else
    put_off: tuple[int, ...]  # tasks that would have started there now, and start nowhere
    moved: tuple[int, ...]  # tasks that would have started there now, and start on other hosts


def clear(
    snapshot: Snapshot,
    policy: Policy,
    lengths: Lengths,
    host: int,
    state: HostState,
    enough: Callable[[], bool] = lambda: False,
) -> Effect:
    """Return what happens if the host goes into `state`; `enough` ends the look at when evicted tasks are back."""
    hosts = tuple(replace(row, state=state) if row.host == host else row for row in snapshot.hosts)
    changed = replace(snapshot, hosts=hosts)
    before, after = decide(snapshot, policy), decide(changed, policy)
    here = {task.id: task for task in snapshot.running if task.hosts.get(host)}
    leaving = {evict.task for evict in after.evictions} & here.keys()
    known = {(evict.task, evict.for_task) for evict in before.evictions}
    started = {start.task for start in after.starts}
    wanted_here = sorted(start.task for start in before.starts if host in start.numbers)
    ahead = _Clearing(changed, policy, lengths, {task for task in leaving if here[task].pull_up})
    ahead.follow(enough)
    effect = Effect(
        leavers=tuple(ahead.leaver(here[task], host) for task in sorted(leaving)),
        stayers=tuple(ahead.stayer(here[task], host) for task in sorted(here.keys() - leaving)),
        elsewhere=tuple(
            evict
            for evict in after.evictions
            if evict.task not in here and (evict.task, evict.for_task) not in known
        ),
        put_off=tuple(task for task in wanted_here if task not in started),
        moved=tuple(task for task in wanted_here if task in started),
    )
    ahead.cluster.take_apart()
    return effect


class _Clearing(Ahead):
    """A look ahead that ends when all evicted tasks that are queued again run again."""

    def __init__(self, snapshot: Snapshot, policy: Policy, lengths: Lengths, coming_back: set[int]) -> None:
        super().__init__(snapshot, policy, lengths)
        self._coming_back = coming_back
        self._ends_known = {task.id: self._known_end(task) for task in snapshot.running}
        self._back: dict[int, Start] = {}
        # What is asked for is when these run again: a look ends once it knows that of all.
        self.asked |= {task.id: as_waiting(task) for task in snapshot.running if task.id in coming_back}

    def follow(self, enough: Callable[[], bool]) -> None:
        """Look until they all run again, or far enough."""
        if self._coming_back:
            self.look(self.now + HORIZON_S, None, lambda: enough() or self._coming_back <= self._back.keys())

    def leaver(self, task: Running, host: int) -> Leaver:
        """Return how an evicted task goes on."""
        start = self._back.get(task.id)
        where = {where: len(numbers) for where, numbers in start.numbers.items()} if start else {}
        back = self.found.get(task.id) if start else None
        return Leaver(task=task.id, cards=task.hosts[host], back=back, where=where)

    def stayer(self, task: Running, host: int) -> Stayer:
        """Return when a task that stays ends."""
        at, length = self._ends_known[task.id]
        source: EndSource = "" if at == NEVER else "leaving" if length is None else length.source
        if task.keeping and at != NEVER:
            source = "kept"
        ends_at = None if at == NEVER else at
        return Stayer(task=task.id, cards=task.hosts[host], ends_at=ends_at, source=source)

    def _start(self, start: Start) -> None:
        super()._start(start)
        if start.task in self._coming_back:
            self._back.setdefault(start.task, start)
