"""A simulator that checks, at every pass, what must hold after every event."""

import copy
import dataclasses
import itertools
from collections import Counter, defaultdict
from typing import Any

from jobs.scheduling.decide import run, work_on
from jobs.scheduling.explain import explain
from jobs.scheduling.hosts import Host
from jobs.scheduling.reasons import Reason
from jobs.scheduling.types import Evict, HostCards, Plan, Running, Snapshot, Waiting
from jobs.simulation.job import Setup
from jobs.simulation.simulate import Simulator

LEAVING = Reason("leaving", {"cards": 0, "missing": 0})


class Watched(Simulator):
    """Asserts the invariants around each pass, and that a pass over a fresh snapshot plans the same."""

    def __init__(self, setup: Setup, *, same_plan: bool = True) -> None:
        super().__init__(setup, watch=lambda _, plan: self.plans.append(plan))
        self.plans: list[Plan] = []
        self.same_plan = same_plan

    def _pass(self) -> None:
        before = snapshot(self)
        accounts = copy.deepcopy(self.accounts)
        super()._pass()
        plan = self.plans[-1]
        work = work_on(before, self.policy)
        work.accounts = accounts
        fresh = run(work)
        if self.same_plan:
            assert fresh == plan, (
                "the state that is kept between passes says something else than the snapshot"
            )
        one_verdict_each(before, plan, explain(work, before))
        places_are_as_asked(before, plan)
        only_who_may_be_evicted_is(before, plan)
        if self.policy.head_of_line != "reserve" and not self.reservations:  # else hosts are barred to some
            no_victim_can_be_spared(before, plan, self.policy.plan_lapse_s)
            if not self.policy.evict_delay_s and self.policy.head_of_line == "skip":
                self.the_guarantee_is_kept(before, plan, explain(work, before))
        self.no_card_twice()
        self.gangs_are_whole()
        self.quota_is_the_sum_of_what_runs()
        self.evictions_are_few()

    def the_guarantee_is_kept(self, before: Snapshot, plan: Plan, reasons: dict[int, Reason]) -> None:
        """A high task inside its quota waits only where it would not fit with every elastic task gone."""
        victims = [
            task
            for task in self.cluster.running.values()
            if not self.cluster.is_high(task) and task.id not in self.cluster.leaving
        ]
        for task in before.waiting:
            if task.wanted == "high" and reasons.get(task.id, LEAVING).code in (
                "no_room",
                "no_room_gang",
                "held_for",
            ):
                for gpu_type in task.gpu_types:
                    caps = self.cluster.ledger.high_caps(task.business, gpu_type)
                    if caps.allows(task.region, task.host_num * task.host_gpu_num):
                        assert not fits(before, plan, task, gpu_type, victims, self.policy.plan_lapse_s)

    def no_card_twice(self) -> None:
        """No card has two owners, and none is owned beyond what the host has."""
        owned = Counter(
            (host, number)
            for job in self.jobs.values()
            for attempt in job.attempts
            if attempt.ended is None
            for host, numbers in attempt.cards.items()
            for number in numbers
        )
        assert all(count == 1 for count in owned.values())
        for hosts in self.cluster.types.values():
            for host in hosts.values():
                assert not any((host.id, number) in owned for number in host.numbers)
                assert len(set(host.numbers)) == len(host.numbers) <= host.total

    def gangs_are_whole(self) -> None:
        """Who runs has all that it asked."""
        for job in self.jobs.values():
            for attempt in job.attempts:
                assert len(attempt.cards) == job.host_num
                assert {len(numbers) for numbers in attempt.cards.values()} == {job.host_gpu_num}

    def quota_is_the_sum_of_what_runs(self) -> None:
        """The ledger counts the cards of high tasks and of their claims, and nothing else."""
        held: dict[tuple[int, int], int] = defaultdict(int)
        for task in self.cluster.running.values():
            if self.cluster.is_high(task):
                held[task.business, task.gpu_type] += task.cards
        for task_id, claim in self.cluster.claims.items():
            if claim.task_class == "high":
                held[self.jobs[task_id].business, claim.gpu_type] += sum(claim.hosts.values())
        counted = {key: used[None] for key, used in self.cluster.ledger.high.items() if used[None]}
        assert counted == dict(held)

    def evictions_are_few(self) -> None:
        """No task is evicted more often in an hour than allowed, the guarantee apart."""
        cap = self.policy.max_evictions_per_hour
        if not cap:
            return
        by_job: dict[int, list[float]] = defaultdict(list)
        for eviction in self.evictions:
            if eviction.rule in ("victim", "slice"):
                by_job[eviction.job].append(eviction.at)
        for times in by_job.values():
            for first, last in zip(times, times[cap:], strict=False):
                assert last - first >= 3600


def snapshot(simulator: Simulator) -> Snapshot:
    """Return the state as a snapshot; what was used in the past stays in `accounts`."""
    cluster = simulator.cluster
    running = [
        dataclasses.replace(
            task,
            task_class="high" if cluster.is_high(task) else "elastic",
            leaving_since=cluster.leaving.get(task.id),
        )
        for task in cluster.running.values()
    ]
    return dataclasses.replace(
        simulator.names_only(),
        hosts=tuple(_row(host) for hosts in cluster.types.values() for host in hosts.values()),
        waiting=tuple(simulator.queue.tasks.values()),
        running=tuple(running),
        quotas=tuple(row for rows in cluster.ledger.rows.values() for row in rows.values()),
        claims=tuple(cluster.claims.values()),
        reservations=tuple(simulator.reservations),
        high_unlimited=cluster.ledger.high_unlimited,
    )


def _row(host: Host) -> HostCards:
    return HostCards(
        host=host.id,
        region=host.region,
        gpu_type=host.gpu_type,
        total=host.total,
        free_numbers=tuple(host.numbers),
        state=host.state,
        offers=host.offers,
    )


def one_verdict_each(before: Snapshot, plan: Plan, reasons: Any) -> None:
    """Every waiting task has a start or a reason, and none has both; every reason can be said."""
    started = [start.task for start in plan.starts]
    assert len(started) == len(set(started))
    assert sorted([*started, *reasons]) == sorted(task.id for task in before.waiting)
    for reason in reasons.values():
        assert reason.sentence
        assert reason.advice


def places_are_as_asked(before: Snapshot, plan: Plan) -> None:
    """Starts and claims have the type, region, number of hosts and cards that the task asks."""
    waiting = {task.id: task for task in before.waiting}
    rows = {(row.host, row.gpu_type): row for row in before.hosts}
    given = [(s.task, s.gpu_type, {h: len(numbers) for h, numbers in s.numbers.items()}) for s in plan.starts]
    given += [(claim.task, claim.gpu_type, dict(claim.hosts)) for claim in plan.claims]
    for task_id, gpu_type, hosts in given:
        task = waiting[task_id]
        assert gpu_type in task.gpu_types
        assert list(hosts.values()) == [task.host_gpu_num] * task.host_num
        for host in hosts:
            row = rows[host, gpu_type]
            assert row.state == "ready"
            assert task.region in (None, row.region)


def only_who_may_be_evicted_is(before: Snapshot, plan: Plan) -> None:
    """Only elastic tasks and kept places that were not leaving are told to leave, and once."""
    running = {task.id: task for task in before.running}
    told = [eviction.task for eviction in plan.evictions]
    assert len(told) == len(set(told))
    for task_id in told:
        task = running[task_id]
        assert task.task_class == "elastic" or task.keeping
        assert not task.leaving


def no_victim_can_be_spared(before: Snapshot, plan: Plan, lapse_s: float) -> None:
    """With any one of its victims left alone, a task that evicts does not fit, anywhere on that type."""
    waiting = {task.id: task for task in before.waiting}
    running = {task.id: task for task in before.running}
    claims = {claim.task: claim for claim in plan.claims}
    for task_id, group in itertools.groupby(_for_tasks(plan), key=lambda eviction: eviction.for_task):
        victims = [running[eviction.task] for eviction in group]
        for spared in victims:
            others = [victim for victim in victims if victim is not spared]
            assert task_id is not None
            gpu_type = claims[task_id].gpu_type
            assert not fits(before, plan, waiting[task_id], gpu_type, others, lapse_s), (
                f"{spared.id} is evicted for nothing"
            )


def _for_tasks(plan: Plan) -> list[Evict]:
    return sorted(
        (e for e in plan.evictions if e.for_task is not None), key=lambda e: (e.for_task or 0, e.task)
    )


def fits(
    before: Snapshot, plan: Plan, task: Waiting, gpu_type: int, victims: list[Running], lapse_s: float
) -> bool:
    """Say, by plain counting, whether the task's cards are there once the victims and all leavers are gone.

    What other tasks were given or hold after the plan is not there for it; what earlier ones evicted for is.
    """
    there: dict[int, int] = {}
    for host in before.hosts:
        if _offered(host, task, gpu_type):
            there[host.host] = len(host.free_numbers)
    earlier = itertools.takewhile(lambda eviction: eviction.for_task != task.id, plan.evictions)
    gone = {eviction.task for eviction in earlier} | {victim.id for victim in victims}
    for runner in before.running:
        since = runner.leaving_since
        leaves = (
            since is not None and since > before.now - lapse_s
        )  # else it should be gone, and is not counted on
        if runner.gpu_type == gpu_type and (leaves or runner.id in gone):
            for host_id, cards in runner.hosts.items():
                if host_id in there:
                    there[host_id] += cards
    for start in plan.starts:
        for host_id, numbers in start.numbers.items():
            if start.gpu_type == gpu_type and host_id in there:
                there[host_id] -= len(numbers)
    for claim in plan.claims:
        for host_id, cards in claim.hosts.items():
            if claim.task != task.id and claim.gpu_type == gpu_type and host_id in there:
                there[host_id] -= cards
    return sum(cards >= task.host_gpu_num for cards in there.values()) >= task.host_num


def _offered(host: HostCards, task: Waiting, gpu_type: int) -> bool:
    return (
        host.gpu_type == gpu_type
        and host.state == "ready"
        and task.region in (None, host.region)
        and host.host not in task.avoid
    )
