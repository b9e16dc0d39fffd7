"""The pass: for every waiting task where it starts, whom it evicts, or why it waits."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from jobs.scheduling import claims
from jobs.scheduling.cluster_state import Cluster
from jobs.scheduling.explain import explain
from jobs.scheduling.fair import Accounts
from jobs.scheduling.order import elastic_turns, first_open, walk, within_quota
from jobs.scheduling.queue import Queue
from jobs.scheduling.serve import serve, serve_autos, try_elastic, try_high
from jobs.scheduling.types import Plan, Policy, Snapshot
from jobs.scheduling.work import Work


def decide(snapshot: Snapshot, policy: Policy) -> Plan:
    """Return the plan for a snapshot: a pure function of its rows, in whatever order they stand."""
    with collector_paused():
        return _decide(snapshot, policy)


def _decide(snapshot: Snapshot, policy: Policy) -> Plan:
    work = work_on(snapshot, policy)
    plan = replace(run(work), waits=explain(work, snapshot))
    work.cluster.take_apart()
    return plan


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic collector: to look through all that a pass makes would take as long as the pass."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def work_on(snapshot: Snapshot, policy: Policy) -> Work:
    """Return the working state of a pass over the snapshot."""
    now = snapshot.now
    cluster = Cluster.of(snapshot)
    queue = Queue.of(snapshot.waiting, policy, now)
    accounts = Accounts(policy.fair_half_life_s, now, snapshot.usage)
    accounts.enrol([task for task in cluster.running.values() if task.task_class == "elastic"], now)
    cluster.claims = {claim.task: claim for claim in snapshot.claims}
    return Work(now, policy, cluster, queue, accounts, snapshot.reservations)


def run(work: Work) -> Plan:
    """Decide on a working state and leave it as the plan makes it; reasons are given apart, where asked."""
    now, policy, cluster, queue = work.now, work.policy, work.cluster, work.queue

    # 1. Whoever left a gate or waited long enough stands elsewhere in line; stuck leavers count no more.
    queue.advance(now)
    work.wake(queue.rank_priorities(now))
    cluster.begin()
    work.wake(cluster.give_up_on(now - policy.plan_lapse_s) + policy.plan_lapse_s)

    # 2. Draining hosts are cleared of elastic tasks.
    for gpu_type, host_id in sorted(cluster.draining):
        for task in sorted(cluster.types[gpu_type][host_id].victims, key=lambda task: task.id):
            if not cluster.is_high(task):
                work.evict(task, None, "drain")

    # 3. Claims: what was planned earlier comes true, goes on waiting for its cards, or is dropped.
    standing = list(cluster.claims.values())
    for claim in standing:
        if claim.task in cluster.claim_owners:
            cluster.release(claim.task)
    cluster.claims.clear()
    work.bind()
    claims.settle(work, standing)

    # 4. High tasks, in order: on free cards, else by evicting.
    serve(work, walk(queue.of_phase("high"), within_quota(work)), try_high)

    # 5. Autos, running and waiting, turn high on the quota that is left.
    serve_autos(work)

    # 6. Elastic tasks take what is free: those that waited too long first, the others by the policy's order.
    claims.settle_elastic(work)
    serve(work, elastic_turns(queue, work.accounts, now, first_open), try_elastic)

    # 7. When time alone may change what was decided.
    work.wake(queue.next_edge())
    for row in work.reservations:
        work.wake(row.start)
        work.wake(row.end)
    return work.plan()
