"""The forecast: the very same pass on a virtual clock, over what is known of how long tasks run."""

import heapq
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice

from jobs.scheduling.decide import run, work_on
from jobs.scheduling.explain import explain
from jobs.scheduling.groups import Group, Line, Phase
from jobs.scheduling.order import elastic_turns, one_by_one, walk
from jobs.scheduling.policy import backoff_s
from jobs.scheduling.queue import Queue
from jobs.scheduling.reasons import NOT_BY_ENDS
from jobs.scheduling.reservation import ends_at
from jobs.scheduling.types import NEVER, Policy, Running, Snapshot, Start, Waiting
from jobs.scheduling.work import Work
from jobs.simulation.lengths import Length, Lengths

HORIZON_S = 7 * 86400.0
STEP_S = 60.0  # two passes of the forecast stand at least so far apart; far ahead …
DISTANCE_PER_STEP = 30.0  # … a thirtieth of what was looked ahead: a week takes some 200 of them, but …
SHORT = 10  # … no further than all but the shortest tenth of the tasks run, else those would seem slower
INVENTED = 1 << 20  # numbers for the cards of running tasks: a snapshot does not say them

BASES: dict[str, str] = {
    "free": "as soon as it may start: no other task has to end for it",
    "limits": "if tasks before it run until their time limits ({limits} of them)",
    "past": "if tasks before it run as long as earlier ones of their users did ({past} of them, each by "
    "the median of {least} earlier ones or more)",
    "limits_and_past": "if of the tasks before it {limits} run until their time limits, and {past} as "
    "long as earlier ones of their users did (the median of {least} earlier ones or more)",
    "unknown_task": "unknown: task {task} before it has no time limit, and too few tasks of its user "
    "have ended to go by",
    "unknown": "unknown: {unknown} tasks before it have no time limit, and too few tasks of their users "
    "have ended to go by",
    "gate": "unknown: it waits for something that nobody can date",
    "peers": "when the last of the tasks that already wait for the same starts ({peers} of them)",
    "beyond": "not within the next {hours} hours, and it was looked no further ahead",
    "never": "unknown: it would not start even after all tasks end whose end can be foreseen",
}


@dataclass(frozen=True, slots=True)
class Basis:
    """What an estimate stands on, or why there is none: a key of BASES and the numbers in its sentence."""

    code: str
    args: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a task first starts (None: unknown), and its basis; tasks of one pass share the basis."""

    start: float | None
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What was foreseen from a snapshot."""

    made_at: float
    until: float  # how far it looked
    passes: int
    lines: Mapping[Line, list[int]]  # its waiting tasks in the order in which the pass tries them
    estimates: Mapping[int, Estimate]  # of every task that waited


def forecast(
    snapshot: Snapshot,
    policy: Policy,
    lengths: Lengths,
    *,
    horizon_s: float = HORIZON_S,
    only: int | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> Forecast:
    """Return when every waiting task would start if nothing more were submitted and all ran as long as known.

    A task of unknown length never ends here, so that whoever needs its cards stays unknown. What ends within
    one step is one event: the pass after it gives all those cards out, and a task's time counts from when
    its cards came free. Evicted tasks leave within the policy's `exit_grace_s` and start over. `enough` is
    asked after each pass and ends the look; `only` ends it once that task starts.
    """
    ahead = Ahead(snapshot, policy, lengths)
    ahead.look(snapshot.now + horizon_s, only, enough)
    found = ahead.result()
    ahead.cluster.take_apart()
    return found


def in_line(work: Work) -> dict[Line, list[int]]:
    """Return the tasks of each line in the order in which a pass over this state would try them."""
    queue = work.queue
    queue.advance(work.now)
    queue.rank_priorities(work.now)
    lines: dict[Line, list[int]] = defaultdict(list)
    for group, task in _turns(work):
        lines[group.line].append(task.id)
    return lines


def line_of(work: Work, task: Waiting) -> list[int]:
    """Return the tasks of the line that the task stands in, in the same order; after a pass over this state."""
    phase: Phase = "high" if task.wanted == "high" else "elastic"
    work.queue.advance(work.now)  # what the pass noted would have them passed over
    groups = [g for g in work.queue.of_phase(phase) if g.line == (phase, frozenset(task.gpu_types))]
    if phase == "high":
        return [other.id for _, other in walk(groups, one_by_one)]
    alone = Queue.of((task for group in groups for task in group.tasks), work.policy, work.now)
    return [other.id for _, other in elastic_turns(alone, work.accounts, work.now, one_by_one)]


def _turns(work: Work) -> Iterator[tuple[Group, Waiting]]:
    """Give the tasks phase by phase, as the pass does, passing nobody over."""
    yield from walk(work.queue.of_phase("high"), one_by_one)
    yield from elastic_turns(work.queue, work.accounts, work.now, one_by_one)


@dataclass(slots=True)
class _Ended:
    """How many tasks of a type ended so far, by what their lengths were known from."""

    limits: int = 0
    past: int = 0
    least: int = 0  # finished tasks behind the weakest median

    def add(self, length: Length) -> None:
        if length.source == "limit":
            self.limits += 1
        else:
            self.past += 1
            self.least = min(self.least or length.of, length.of)

    def basis(self) -> Basis:
        if not self.past:
            return Basis("limits", {"limits": self.limits}) if self.limits else Basis("free")
        past = {"past": self.past, "least": self.least}
        if not self.limits:
            return Basis("past", past)
        return Basis("limits_and_past", {"limits": self.limits, **past})


class Ahead:
    """The state of a look ahead: that of a pass, and the ends that are known to come."""

    def __init__(self, snapshot: Snapshot, policy: Policy, lengths: Lengths) -> None:
        self.snapshot, self.policy, self.lengths = snapshot, policy, lengths
        self.now = self.began = snapshot.now
        self.work = work_on(snapshot, policy)
        self.cluster, self.queue, self.accounts = self.work.cluster, self.work.queue, self.work.accounts
        self.lines = in_line(self.work)
        self.asked = dict(self.queue.tasks)  # those whose start is not known yet
        self.waited = dict(self.queue.tasks)
        self.found: dict[int, Estimate] = {}
        self.ended: dict[int, _Ended] = defaultdict(_Ended)  # by type
        self.passes = 0
        self._ends: list[tuple[float, int, int]] = []  # heap: when, task, which of its runs
        self._runs: dict[int, int] = defaultdict(int)  # how often a task was started here
        self._lengths: dict[int, Length] = {}  # of those that run and whose end is known
        self._endless: set[int] = set()  # the others that run
        self._numbers: dict[int, Mapping[int, tuple[int, ...]]] = {}
        self._free_since: dict[tuple[int, int, int], float] = {}  # (type, host, number) → end of its last
        self._passed_at = self._wake_at = self._gone_at = NEVER
        self._spans: list[float] = []  # seconds that those who started here run, ascending
        self._take_running()

    def _take_running(self) -> None:
        """Note of the tasks that run already when they end, and give their cards numbers."""
        usable = {(row.gpu_type, row.host) for row in self.snapshot.hosts if row.state != "lost"}
        invented: dict[tuple[int, int], count[int]] = defaultdict(lambda: count(INVENTED))
        for task in self.cluster.running.values():
            self._numbers[task.id] = {
                host: tuple(islice(invented[task.gpu_type, host], cards))
                for host, cards in task.hosts.items()
            }
            known = task.hosts and all((task.gpu_type, host) in usable for host in task.hosts)
            self._note_end(task, *(self._known_end(task) if known else (NEVER, None)))

    def _known_end(self, task: Running) -> tuple[float, Length | None]:
        """Return when a task that runs already ends; NEVER where nobody knows."""
        if task.leaving_since is not None:
            stuck = task.leaving_since <= self.now - self.policy.plan_lapse_s
            return (NEVER, None) if stuck else (task.leaving_since + self.policy.exit_grace_s, None)
        if task.keeping:
            until = self.lengths.kept_until.get(task.id, NEVER)
            return until, Length(seconds=until - task.started, source="limit")
        length = self.lengths.of(task, task.cards, self.now - task.started)
        if length is None:
            return NEVER, None
        at = ends_at(task, self.now) if length.source == "limit" else task.started + length.seconds
        return at, length

    def _note_end(self, task: Running, at: float, length: Length | None) -> None:
        if at == NEVER:
            self._endless.add(task.id)
            return
        heapq.heappush(self._ends, (max(self.now, at), task.id, self._runs[task.id]))
        if length is not None:
            self._lengths[task.id] = length

    # The clock

    def look(self, until: float, only: int | None, enough: Callable[[], bool]) -> None:
        """Run pass after pass until nothing more is known to happen, or it has looked far enough."""
        self._let_end()
        hurried = False
        while True:
            self._pass()
            if not self.asked or (only is not None and only not in self.asked) or enough():
                return
            at = max(min(self._ends[0][0] if self._ends else NEVER, self._wake_at), self.now + self._step())
            # Claims lapse while a long step passes: those whose cards come free get a pass of their own,
            # but no chain of them.
            hurried = self._gone_at < at and not hurried
            at = self._gone_at if hurried else at
            if at > until:
                self.now = until
                return
            self.now = at
            self._let_end()

    def _step(self) -> float:
        short = self._spans[len(self._spans) // SHORT] if self._spans else NEVER
        return max(STEP_S, min((self.now - self.began) / DISTANCE_PER_STEP, short))

    def _pass(self) -> None:
        work = self.work
        if self.passes:
            work = Work(
                self.now, self.policy, self.cluster, self.queue, self.accounts, self.snapshot.reservations
            )
        self.work = work
        self.passes += 1
        plan = run(work)
        self._wake_at = NEVER if plan.wake_at is None else plan.wake_at
        self._gone_at = NEVER
        for eviction in plan.evictions:
            self._gone_at = self.now + self.policy.exit_grace_s
            self._lengths.pop(eviction.task, None)
            self._endless.discard(eviction.task)
            heapq.heappush(self._ends, (self._gone_at, eviction.task, self._runs[eviction.task]))
        for start in plan.starts:
            self._start(start)
        self._passed_at = self.now

    def _start(self, start: Start) -> None:
        task = self.queue.tasks[start.task]
        self.queue.remove(task.id)
        self.waited[task.id] = task
        self._runs[task.id] += 1
        self._numbers[task.id] = start.numbers
        length = self.lengths.of(task, task.host_num * task.host_gpu_num)
        at, end = self._began(start), NEVER
        if length is not None:
            end = at + length.seconds
            insort(self._spans, length.seconds)
        self._note_end(self.cluster.running[task.id], end, length)
        if self.asked.pop(task.id, None) is not None:
            self.found[task.id] = Estimate(at, self.ended[start.gpu_type].basis())

    def _began(self, start: Start) -> float:
        """Return when the last of its cards came free; now, where it was not for cards that it waited."""
        gpu_type, free = start.gpu_type, self._free_since
        cards = ((gpu_type, host, number) for host, numbers in start.numbers.items() for number in numbers)
        since = max(free.get(card, -NEVER) for card in cards)
        return since if since > self._passed_at else self.now

    def _let_end(self) -> None:
        """Let those end whose time has come; of two ends that were noted for a run the first one counts."""
        while self._ends and self._ends[0][0] <= self.now:
            at, task_id, run_number = heapq.heappop(self._ends)
            runner = self.cluster.running.get(task_id)
            if runner is not None and run_number == self._runs[task_id]:
                self._end(runner, at)

    def _end(self, runner: Running, at: float) -> None:
        evicted = runner.id in self.cluster.leaving and runner.leaving_since is None
        if not self.cluster.is_high(runner):
            self.accounts.end(runner.business, runner.user, runner.cards, runner.started, self.now)
        numbers = self._numbers.pop(runner.id)
        self.cluster.gone(runner, numbers)
        cards = ((runner.gpu_type, host, number) for host, given in numbers.items() for number in given)
        self._free_since.update(dict.fromkeys(cards, at))
        length = self._lengths.pop(runner.id, None)
        if length is not None:
            self.ended[runner.gpu_type].add(length)
        if (evicted or (runner.leaving and runner.evicted_for)) and runner.pull_up and not runner.keeping:
            self.queue.add(self._again(runner), self.now)

    def _again(self, runner: Running) -> Waiting:
        """Return an evicted task as it waits once more."""
        known = self.waited.get(runner.id) or as_waiting(runner)
        times = (*runner.evictions, self.now)
        backoff = backoff_s(self.policy.pull_up_backoff_s, len(times) - 1)
        return replace(
            known, queued=self.now, ready_at=self.now + backoff, gate="backoff", evictions=times[-10:]
        )

    # What came of it

    def result(self) -> Forecast:
        """Return the estimates of all that waited, and why there are none of some."""
        for task, basis in self._unknown(self.asked.values()):
            self.found[task.id] = Estimate(None, basis)
        return Forecast(
            made_at=self.began, until=self.now, passes=self.passes, lines=self.lines, estimates=self.found
        )

    def _unknown(self, tasks: Iterable[Waiting]) -> Iterator[tuple[Waiting, Basis]]:
        reasons = explain(self.work, self.snapshot) if self.asked else {}
        endless: dict[int, set[int]] = defaultdict(set)  # type → tasks of unknown length
        for task_id in self._endless:
            endless[self.cluster.running[task_id].gpu_type].add(task_id)
        hours = (self.now - self.began) / 3600
        looked = Basis("beyond", {"hours": round(hours) if hours >= 10 else round(hours, 1)})
        shared: dict[tuple[int, ...], Basis] = {}
        for task in tasks:
            reason = reasons.get(task.id)
            if task.gate in ("hold", "dependency"):
                yield task, Basis("gate")
            elif reason is not None and reason.code in NOT_BY_ENDS:
                yield task, Basis("never")
            else:
                basis = shared.get(task.gpu_types)
                if basis is None:
                    basis = shared[task.gpu_types] = self._why(endless, task.gpu_types) or looked
                yield task, basis

    def _why(self, endless: Mapping[int, set[int]], gpu_types: tuple[int, ...]) -> Basis | None:
        before = sorted(set().union(*(endless.get(gpu_type, set()) for gpu_type in gpu_types)))
        if len(before) == 1:
            return Basis("unknown_task", {"task": before[0]})
        if before:
            return Basis("unknown", {"unknown": len(before)})
        return Basis("never") if not self._ends and self._wake_at == NEVER else None


def as_waiting(runner: Running) -> Waiting:
    """Return what a running task asked for, as far as it can be seen: of the types, the one that it runs on."""
    hosts = max(1, len(runner.hosts))
    return Waiting(
        id=runner.id,
        business=runner.business,
        user=runner.user,
        wanted=runner.wanted,
        host_num=hosts,
        host_gpu_num=runner.cards // hosts,
        gpu_types=(runner.gpu_type,),
        region=runner.region,
        priority=runner.priority,
        submitted=runner.submitted,
        queued=runner.submitted,
        time_limit=runner.time_limit,
        pull_up=runner.pull_up,
        checkpoint_s=runner.checkpoint_s,
    )
