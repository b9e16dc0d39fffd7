"""The next pass, rehearsed with a task that is not there yet, on a snapshot that is kept until something changes.

Loading a large installation takes longer than deciding on it, and pages ask while people type: so each web process
keeps what it loaded last, and of the working state what a rehearsal leaves as it was.
"""

import threading
from collections.abc import Hashable
from copy import copy
from dataclasses import dataclass, replace

from cluster import clock
from jobs.engine import changes, forecasts, snapshot
from jobs.scheduling import types
from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.decide import collector_paused, run, work_on
from jobs.scheduling.explain import explain
from jobs.scheduling.fair import Accounts
from jobs.scheduling.queue import Queue
from jobs.scheduling.reasons import Reason
from jobs.scheduling.work import Work
from jobs.simulation.forecast import line_of
from jobs.simulation.lengths import Lengths

ASKED = 2**62  # the id of the task that is only asked about: after every real one
KEEP_S = 30.0  # no snapshot is used for longer, whether or not anything changed: that trusts nobody
SAME_S = 5.0  # what was rehearsed so long ago, and is asked again, is not rehearsed again


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the next pass would do with the task."""

    start: types.Start | None = None
    claim: types.Claim | None = None  # it starts on these cards once those who hold them are gone
    evictions: tuple[types.Evict, ...] = ()  # made for it
    reason: Reason | None = None  # why it waits
    # The tasks of the line that it waits in, as they stand after that pass; empty: it stands in none.
    line: tuple[int, ...] = ()


class Rehearsal:
    """What is known of the installation, and a stage to try the next pass on."""

    def __init__(self, version: changes.Version | None) -> None:
        """Load what is known now; `version` was read before."""
        self.version = version
        self.policy = snapshot.policy()
        self.snapshot = snapshot.load(clock.seconds(), self.policy.fair_half_life_s).snapshot
        self.hosts = {(row.gpu_type, row.host): row for row in self.snapshot.hosts}
        self.running = {task.id: task for task in self.snapshot.running}
        self.waiting = {task.id: task for task in self.snapshot.waiting}
        self._lengths: Lengths | None = None
        self._lock = threading.Lock()
        self._now = self.snapshot.now
        self._queue: Queue | None = None
        self._stage: tuple[Cluster, Accounts] | None = None
        self._recent: dict[Hashable, tuple[float, Outcome]] = {}

    def lengths(self) -> Lengths:
        """Return what is known of how long tasks run."""
        if self._lengths is None:
            self._lengths = forecasts.lengths()
        return self._lengths

    def may_serve(self, version: changes.Version | None) -> bool:
        """Say whether nothing changed since this was loaded."""
        return (
            version is not None and version == self.version and clock.seconds() < self.snapshot.now + KEEP_S
        )

    def with_task(self, asked: types.Waiting) -> types.Snapshot:
        """Return the snapshot as it would be with the task."""
        return replace(self.snapshot, now=asked.submitted, waiting=(*self.snapshot.waiting, asked))

    def outcome(self, asked: types.Waiting) -> Outcome:
        """Return what the next pass would do with the task, whose id is ASKED."""
        same = _shape(asked)
        with self._lock:
            rehearsed_at, outcome = self._recent.get(same, (0.0, None))
            if outcome is None or not 0 <= asked.submitted - rehearsed_at < SAME_S:
                with collector_paused():
                    outcome = self._rehearse(asked)
                self._recent[same] = (asked.submitted, outcome)
            return outcome

    def _rehearse(self, asked: types.Waiting) -> Outcome:
        self._now = max(self._now, asked.submitted)
        queue, (cluster, accounts) = self._set()
        self._queue = self._stage = None  # of a rehearsal that fails nothing is used again
        queue.advance(self._now)
        queue.add(asked, self._now)
        standing = dict(cluster.claims)
        work = Work(self._now, self.policy, cluster, queue, accounts, self.snapshot.reservations)
        plan = run(work)
        outcome = self._found(work, plan, asked)
        queue.remove(ASKED)
        self._queue = queue
        if plan.starts or plan.evictions or plan.promotions or cluster.claims != standing:
            cluster.take_apart()
        else:
            self._stage = cluster, accounts  # that pass changed nothing, so the next one may use it as well
        return outcome

    def _set(self) -> tuple[Queue, tuple[Cluster, Accounts]]:
        """Return the working state of a pass, as far as it is not there already."""
        if self._queue is not None and self._stage is not None:
            return self._queue, self._stage
        waiting = self.snapshot.waiting if self._queue is None else ()
        work = work_on(replace(self.snapshot, now=self._now, waiting=waiting), self.policy)
        return self._queue or work.queue, (work.cluster, work.accounts)

    def _found(self, work: Work, plan: types.Plan, asked: types.Waiting) -> Outcome:
        for start in plan.starts:
            if start.task == ASKED:
                return Outcome(start=start)
        evictions = tuple(evict for evict in plan.evictions if evict.for_task == ASKED)
        reason = explain(_alone(work, asked), self.snapshot).get(ASKED)
        line = [task for task in line_of(work, asked) if task not in work.started]
        in_line = tuple(line) if ASKED in line else ()
        return Outcome(claim=work.cluster.claims.get(ASKED), evictions=evictions, reason=reason, line=in_line)


def _alone(work: Work, asked: types.Waiting) -> Work:
    """Return what the pass left with nobody waiting but those of the task's shape: reasons are made for all."""
    found, queue, cluster = copy(work), Queue(work.policy), copy(work.cluster)
    kinds = frozenset(asked.gpu_types)
    for key, group in work.queue.groups.items():
        if group.line[1] == kinds and any(task.id == ASKED for task in group.tasks):
            queue.groups[key] = group
    queue.gated = {ASKED: asked} if ASKED in work.queue.gated else {}
    cluster.claims = {ASKED: cluster.claims[ASKED]} if ASKED in cluster.claims else {}
    found.queue, found.cluster = queue, cluster
    return found


def _shape(task: types.Waiting) -> Hashable:
    """Return all that a pass looks at in a task but the moment of the question."""
    return (
        task.business, task.user, task.wanted, task.host_num, task.host_gpu_num, task.gpu_types, task.region,
        task.needs, task.priority, task.ready_at, task.gate, task.time_limit,
    )  # fmt: skip


_kept: Rehearsal | None = None
_loading = threading.Lock()  # one loads, the others wait for what it loads


def current() -> Rehearsal:
    """Return the rehearsal of this process, loaded anew where anything changed."""
    global _kept
    with _loading:
        version = changes.version()
        if _kept is None or not _kept.may_serve(version):
            _kept = Rehearsal(version)
        return _kept
