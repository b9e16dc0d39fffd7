"""The simulator: recorded or invented work on a virtual clock, driven through the very same pass.

Its gangs start whole and at once, so that `start_deadline_s` never comes; an attempt that is told to leave is gone
`exit_s` later, whatever `exit_grace_s`; a host is lost when an event says so, whatever `lost_after_s`.
"""

import dataclasses
import heapq
from array import array
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.decide import run
from jobs.scheduling.explain import explain
from jobs.scheduling.fair import Accounts
from jobs.scheduling.hosts import Host
from jobs.scheduling.policy import FAILED_AT_ONCE_S, backoff_s
from jobs.scheduling.queue import Queue
from jobs.scheduling.quota import Ledger
from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import NEVER, Plan, Quota, Reservation, Snapshot, Waiting
from jobs.scheduling.work import Work
from jobs.simulation.job import Attempt, Job, Setup

BAD_CARD = ("broken", "external")


@dataclass(frozen=True, slots=True)
class Eviction:
    """Who was evicted for whom, and by which rule."""

    at: float
    job: int
    for_job: int | None
    rule: str


class Simulator:
    """Runs a setup to its end; `stopwatch` times the passes, `watch` sees each one's state and plan."""

    def __init__(
        self,
        setup: Setup,
        *,
        stopwatch: Callable[[], float] = lambda: 0.0,
        watch: Callable[["Simulator", Plan], None] | None = None,
    ) -> None:
        self.setup = setup
        self.policy = setup.policy
        self.stopwatch = stopwatch
        self.watch = watch
        self.now = 0.0
        ledger = Ledger(setup.quotas, high_unlimited=not setup.quotas)
        ledger.caps_elastic |= setup.capped  # a cap that comes later counts what started before it
        self.cluster = Cluster(ledger)
        for row in setup.hosts:
            self.cluster.add_host(row)
        self.queue = Queue(self.policy)
        self.accounts = Accounts(self.policy.fair_half_life_s, 0.0)
        self.reservations: list[Reservation] = []
        self.jobs: dict[int, Job] = {}
        self.evictions: list[Eviction] = []
        self.pass_s = array("d")  # how long each pass took
        self.bad_cards: dict[int, set[int]] = defaultdict(set)  # host → numbers
        self.lost_since: dict[int, float] = {}
        self.strikes: dict[int, set[int]] = defaultdict(set)  # host → jobs that failed there at once
        self._holders: dict[tuple[int, int | None, int], int] = {}  # shape → hosts that could hold it
        self._timers: list[tuple[float, int, str, tuple[int, int]]] = []
        self._timer_number = 0
        self._next_event = 0  # of the setup's
        self._wake_at = NEVER
        self._happen: dict[str, Callable[[Any], None]] = {
            "submit": self._submit,
            "stop": self._stop,
            "host": self._host,
            "card": self._card,
            "quota": self._quota,
            "reservation": self.reservations.append,
            "report": self._report,
        }

    # The clock

    def run(self) -> None:
        """Let everything happen, up to the setup's end where it has one, and say why the rest still waits."""
        until = NEVER if self.setup.until is None else self.setup.until
        while (at := self.next_at()) < NEVER and at <= until:
            self.step()
        if until < NEVER:
            self.now = max(self.now, until)
        self.explain()

    def advance(self, until: float) -> None:
        """Let everything happen that happens up to `until` (seconds), and let it be that time."""
        while self.next_at() <= until:
            self.step()
        self.now = max(self.now, until)

    def add(self, event: tuple[float, str, Any]) -> None:
        """Let one thing more happen, now or later: after what was to happen at that time already."""
        insort(self.setup.events, event, lo=self._next_event, key=itemgetter(0))

    def next_at(self) -> float:
        """Return when something happens next; infinity where nothing does."""
        events, next_event = self.setup.events, self._next_event
        event = events[next_event][0] if next_event < len(events) else NEVER
        timer = self._timers[0][0] if self._timers else NEVER
        return min(event, timer, self._wake_at)

    def step(self) -> None:
        """Let the next instant happen: ends before starts, then all events, then one pass."""
        self.now = max(self.now, self.next_at())
        self._let_end()
        events = self.setup.events
        while self._next_event < len(events) and events[self._next_event][0] <= self.now:
            _, kind, what = events[self._next_event]
            self._next_event += 1
            self._happen[kind](what)
        self._let_end()
        self._pass()

    @property
    def over(self) -> int:
        """Return how many jobs have ended for good."""
        return len(self.jobs) - len(self.queue.tasks) - len(self.cluster.running)

    def _let_end(self) -> None:
        """Let the attempts end whose time has come: ends go before starts."""
        while self._timers and self._timers[0][0] <= self.now:
            _, _, kind, (key, number) = heapq.heappop(self._timers)
            if kind == "lost":
                self._give_up(key, number)
            elif number == len(self.jobs[key].attempts) and self.jobs[key].attempts[-1].ended is None:
                self._end(self.jobs[key], kind)

    def _at(self, time: float, kind: str, key: int, number: int) -> None:
        self._timer_number += 1
        heapq.heappush(self._timers, (time, self._timer_number, kind, (key, number)))

    def _pass(self) -> None:
        started = self.stopwatch()
        work = self._work()
        plan = run(work)
        self.pass_s.append(self.stopwatch() - started)
        self._wake_at = NEVER if plan.wake_at is None else plan.wake_at
        if self.watch is not None:
            self.watch(self, plan)
        for start in plan.starts:
            self._start(self.jobs[start.task], start.task_class, start.numbers)
        for eviction in plan.evictions:
            self.evictions.append(Eviction(self.now, eviction.task, eviction.for_task, eviction.rule))
            self._tell(self.jobs[eviction.task], "evicted")
        for promotion in plan.promotions:
            job = self.jobs[promotion.task]
            job.task_class, job.attempts[-1].promoted = "high", self.now

    def _work(self) -> Work:
        return Work(self.now, self.policy, self.cluster, self.queue, self.accounts, tuple(self.reservations))

    def explain(self) -> None:
        """Give the jobs that still wait their reasons: another pass over the same state changes nothing."""
        if not self.queue.tasks:
            return
        work = self._work()
        run(work)
        for job_id, reason in explain(work, self.names_only()).items():
            self.jobs[job_id].reason = reason

    def names_only(self) -> Snapshot:
        """Return a snapshot of nothing but names, for sentences."""
        setup = self.setup
        return Snapshot(
            now=self.now,
            type_names=setup.type_names,
            host_names=setup.host_names,
            business_names=setup.business_names,
        )

    # Attempts

    def _start(
        self, job: Job, task_class: Literal["high", "elastic"], cards: Mapping[int, tuple[int, ...]]
    ) -> None:
        self.queue.remove(job.id)
        job.state, job.task_class = "running", task_class
        job.waited += self.now - job.queued
        job.attempts.append(Attempt(started=self.now, task_class=task_class, cards=cards))
        length = job.duration - job.done + (job.restart_s if len(job.attempts) > 1 else 0.0)
        if job.time_limit is not None and job.time_limit < length:
            self._at(self.now + job.time_limit, "time_limit", job.id, len(job.attempts))
        else:
            self._at(self.now + length, "succeeded", job.id, len(job.attempts))

    def _tell(self, job: Job, outcome: str) -> None:
        """Tell the job's attempt to leave; it is gone `exit_s` later."""
        attempt = job.attempts[-1]
        attempt.told_at, attempt.told_to_end_as = self.now, outcome
        job.state = "evicting" if outcome == "evicted" else "stopping"
        if job.id not in self.cluster.leaving:
            self.cluster.leave(self.cluster.running[job.id], self.now)
        self._at(self.now + job.exit_s, "gone", job.id, len(job.attempts))

    def _end(self, job: Job, kind: str) -> None:
        """Take note of an end: of the work, of the time limit, or of a process that was told to leave."""
        attempt = job.attempts[-1]
        if attempt.told_at is not None and kind != "gone":
            return  # it is leaving already, and says so when it is gone
        if any(host in self.lost_since for host in attempt.cards):
            attempt.overdue = kind  # an unknown is not an end
        elif kind == "time_limit":
            self._tell(job, "time_limit")
        else:
            self._close(job, attempt.told_to_end_as if kind == "gone" else kind)

    def _close(self, job: Job, outcome: str) -> None:
        """Close the attempt, free its cards, and decide whether the job comes back."""
        attempt = job.attempts[-1]
        runner = self.cluster.running[job.id]
        high = self.cluster.is_high(runner)
        self.cluster.gone(
            runner,
            {host: [n for n in ns if n not in self.bad_cards[host]] for host, ns in attempt.cards.items()},
        )
        if not high:
            self.accounts.end(job.business, job.user, job.cards, attempt.started, self.now)
        attempt.ended = self.now
        attempt.outcome = "failed" if outcome == "time_limit" else outcome
        self._keep_work(job, attempt)
        if outcome == "evicted":
            job.evicted_at.append(self.now if attempt.told_at is None else attempt.told_at)
            self._again(job, "evicted", may=job.pull_up, times=len(job.evicted_at))
        elif outcome in ("failed", "lost"):
            free = outcome == "lost" and job.pull_up and not high
            job.failures += 0 if free else 1
            self._again(
                job, "failed", may=free or job.failures <= job.retry_limit, times=max(1, job.failures)
            )
        else:
            job.state, job.ended = attempt.outcome, self.now
            job.reason = Reason("time_limit") if outcome == "time_limit" else None

    def _keep_work(self, job: Job, attempt: Attempt) -> None:
        """Count the work that survives the attempt: up to its last checkpoint, or all of it."""
        stopped = self.now if attempt.told_at is None else attempt.told_at
        ran = stopped - attempt.started
        if attempt.outcome == "succeeded":
            job.done = job.duration
            return
        worked = max(0.0, ran - (job.restart_s if len(job.attempts) > 1 else 0.0))
        total = min(job.duration, job.done + worked)  # on a lost host it may have been through long ago
        kept = total if not job.checkpoint_s else max(job.done, total // job.checkpoint_s * job.checkpoint_s)
        job.lost_card_s += job.cards * (ran - (kept - job.done))
        job.done = kept

    def _again(self, job: Job, else_state: str, *, may: bool, times: int) -> None:
        """Queue the job once more after its backoff, or let it end."""
        if not may:
            job.state, job.ended = else_state, self.now
            return
        backoff = backoff_s(self.policy.pull_up_backoff_s, times - 1)
        job.state, job.queued = "queued", self.now
        self.queue.add(self.waiting(job, ready_at=self.now + backoff), self.now)

    def waiting(self, job: Job, *, ready_at: float = 0.0) -> Waiting:
        """Return the job as the pass sees it while it waits."""
        return Waiting(
            id=job.id,
            business=job.business,
            user=job.user,
            wanted=job.wanted,
            host_num=job.host_num,
            host_gpu_num=job.host_gpu_num,
            gpu_types=job.gpu_types,
            any_type=job.any_type,
            region=job.region,
            priority=job.priority,
            submitted=job.submitted,
            queued=job.queued,
            ready_at=ready_at,
            gate="backoff" if ready_at > self.now else "",
            time_limit=job.time_limit,
            duration=job.duration - job.done,
            avoid=job.avoid,
            pull_up=job.pull_up,
            checkpoint_s=job.checkpoint_s,
            evictions=tuple(at for at in job.evicted_at if at > self.now - 3600),
        )

    # What happens from outside

    def _submit(self, job: Job) -> None:
        self.jobs[job.id] = job
        job.queued = self.now
        if any(self._could_hold(t, job.region, job.host_gpu_num) >= job.host_num for t in job.gpu_types):
            self.queue.add(self.waiting(job), self.now)
        else:
            job.state, job.ended = "refused", self.now
            job.reason = Reason("refused", {"host_num": job.host_num, "per_host": job.host_gpu_num})

    def _could_hold(self, gpu_type: int, region: int | None, cards: int) -> int:
        """Return how many hosts have so many cards when all are there and well; asked once per shape."""
        shape = (gpu_type, region, cards)
        if shape not in self._holders:
            rows = [row for row in self.setup.hosts if row.gpu_type == gpu_type and row.total >= cards]
            self._holders[shape] = sum(region is None or row.region == region for row in rows)
        return self._holders[shape]

    def _stop(self, job_id: int) -> None:
        job = self.jobs.get(job_id)
        if job is None:
            return  # nobody knows of it yet
        if job.id in self.queue.tasks:
            self.queue.remove(job.id)
            job.waited += self.now - job.queued
            job.state, job.ended = "stopped", self.now
        elif job.id in self.cluster.running:
            if job.attempts[-1].told_at is None:
                self._tell(job, "stopped")
            job.attempts[-1].told_to_end_as, job.state = "stopped", "stopping"

    def _report(self, report: Mapping[str, Any]) -> None:
        """Hear that a member ended by itself; of an older attempt, or of one that leaves, it is too late."""
        job = self.jobs.get(report["task"])
        attempt = job.attempts[-1] if job is not None and job.attempts else None
        if job is None or attempt is None or attempt.told_at is not None or attempt.ended is not None:
            return
        if report["attempt"] != len(job.attempts):
            return
        if report["outcome"] == "failed" and self.now - attempt.started < FAILED_AT_ONCE_S:
            self._strike(report["host"], job)
        self._tell(job, report["outcome"])

    def _strike(self, host_id: int, job: Job) -> None:
        job.avoid |= {host_id}
        self.strikes[host_id].add(job.id)
        if 0 < self.policy.quarantine_after <= len(self.strikes[host_id]):
            self._set_state(host_id, "quarantined")

    def _hosts(self, host_id: int) -> Iterable[Host]:
        return [hosts[host_id] for hosts in self.cluster.types.values() if host_id in hosts]

    def _set_state(self, host_id: int, state: str) -> None:
        for host in self._hosts(host_id):
            self.cluster.set_state(host, state)

    def _host(self, change: tuple[int, str]) -> None:
        host_id, state = change
        self._set_state(host_id, state)
        if state == "lost":
            self.lost_since.setdefault(host_id, self.now)
            if self.policy.restart_lost_s > 0:
                self._at(self.lost_since[host_id] + self.policy.restart_lost_s, "lost", host_id, 0)
            return
        self.lost_since.pop(host_id, None)
        if state == "ready":
            self.strikes.pop(host_id, None)
        for job in self._jobs_on(host_id):
            if state == "removed":
                self._close(job, job.attempts[-1].told_to_end_as or "lost")
            elif job.attempts[-1].overdue:
                self._end(job, job.attempts[-1].overdue)

    def _give_up(self, host_id: int, _: int) -> None:
        """End what ran on a host that was lost for too long."""
        since = self.lost_since.get(host_id)
        if since is not None and self.now >= since + self.policy.restart_lost_s:
            for job in self._jobs_on(host_id):
                self._close(job, job.attempts[-1].told_to_end_as or "lost")

    def _jobs_on(self, host_id: int) -> list[Job]:
        running = sorted(self.cluster.running)
        return [self.jobs[job_id] for job_id in running if host_id in self.jobs[job_id].attempts[-1].cards]

    def _card(self, change: tuple[int, int, str]) -> None:
        """Let a card break, be used from outside, or be well again; who runs on it goes on."""
        host_id, number, state = change
        bad = self.bad_cards[host_id]
        if (state in BAD_CARD) == (number in bad):
            return
        sign = -1 if state in BAD_CARD else 1
        (bad.add if sign < 0 else bad.remove)(number)
        owner = next((j for j in self._jobs_on(host_id) if number in j.attempts[-1].cards[host_id]), None)
        rows = (row for row in self.setup.hosts if row.host == host_id and number in row.free_numbers)
        for row in rows:  # the one of the card's type
            host = self.cluster.types[row.gpu_type][host_id]
            self.cluster.resize(host, host.total + sign, None if owner else number)
        if owner is not None:
            runner = self.cluster.running[owner.id]
            hosts = {**runner.hosts, host_id: runner.hosts[host_id] + sign}
            self.cluster.replace(runner, dataclasses.replace(runner, hosts=hosts))

    def _quota(self, row: Quota) -> None:
        self.cluster.ledger.set_row(row)
