"""One scheduling pass: take the lease or leave, reconcile; where something changed, load, decide, apply."""

import logging
import math
import os
import socket
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise

from cluster import clock, hints, inventory
from jobs.engine import changes, lease, pass_log, past_use, reconcile, snapshot
from jobs.engine.apply import apply
from jobs.scheduling import types
from jobs.scheduling.decide import collector_paused, decide

log = logging.getLogger(__name__)
PLAN_EVERY_S = 30.0  # a change that went unnoticed delays a start by this at most
HOLDER = f"{socket.gethostname()[:48]}:{os.getpid()}"  # a host's name may fill the column alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one pass did; times in milliseconds."""

    planned: bool  # false: nothing changed since the last plan, so there was nothing to decide
    moved: int = 0  # attempts that reconciling moved
    starts: int = 0
    evictions: int = 0
    reconcile_ms: float = 0.0
    load_ms: float = 0.0
    decide_ms: float = 0.0
    apply_ms: float = 0.0


def run(wait_s: float = 1.0) -> Done | None:
    """Run a pass; None where another process holds the lease for all of `wait_s` seconds.

    Waiting matters: a change that asked for this pass may have come after the other one read it.
    """
    fence = lease.take(HOLDER, wait_s)
    if fence is None:
        return None
    began = time.perf_counter()
    try:
        with collector_paused():
            done = _run(fence)
    except lease.StaleHolder as error:
        log.warning("pass given up: %s", error)
        return None
    except BaseException:
        lease.let_go(fence)
        raise
    lease.give_back(fence, (time.perf_counter() - began) * 1000)
    return done


def _run(fence: int) -> Done:
    began = time.perf_counter()
    hints.pass_begins()
    clock.follow()
    policy = snapshot.policy()
    now = clock.now()
    inventory.sweep(now, policy.lost_after_s, partial(lease.guard, fence))
    moved = reconcile.run(now, policy, fence)
    reconcile_ms = (time.perf_counter() - began) * 1000
    if not _is_due(fence, clock.seconds()):
        return Done(moved=moved, planned=False, reconcile_ms=reconcile_ms)
    done = replace(_plan(fence), moved=moved, reconcile_ms=reconcile_ms)
    pass_log.note(clock.seconds(), (time.perf_counter() - began) * 1000, done.starts, done.evictions)
    return done


def _plan(fence: int) -> Done:
    marks = [time.perf_counter()]
    policy = snapshot.policy()  # as it is now: a change of it may be what made the plan due
    loaded = snapshot.load(clock.seconds(), policy.fair_half_life_s)
    now = loaded.snapshot.now
    marks.append(time.perf_counter())
    # Both may take long: who loaded for most of the lease would be overtaken while it decides, each time anew.
    lease.guard(fence)
    plan = decide(loaded.snapshot, policy)
    marks.append(time.perf_counter())
    changed = apply(plan, loaded, policy, fence)
    past_use.keep(now, policy.fair_half_life_s, fence)
    lease.plan_again_at(fence, _due_at(plan, now, missed=changed.missed))
    marks.append(time.perf_counter())
    load_ms, decide_ms, apply_ms = [(after - before) * 1000 for before, after in pairwise(marks)]
    return Done(
        planned=True,
        starts=changed.starts,
        evictions=changed.evictions,
        load_ms=load_ms,
        decide_ms=decide_ms,
        apply_ms=apply_ms,
    )


def _is_due(fence: int, now: float) -> bool:
    """Say whether a new plan could differ from the last: something changed, or its time has come.

    A plan is a pure function of rows and time. Each change of a row leaves a mark, and a plan says itself
    when time alone may change it; that one is made now and then all the same costs little and trusts nobody.
    """
    if changes.take(fence):
        return True
    due_at = lease.due_at()
    # One later than any plan asks for was written by a clock that was ahead.
    return due_at is None or not now < due_at.timestamp() <= now + PLAN_EVERY_S


def _due_at(plan: types.Plan, now: float, *, missed: int) -> datetime:
    """Say when to plan anew even if nothing changes: at once where verdicts of the plan could not be written."""
    at = now if missed else min(now + PLAN_EVERY_S, plan.wake_at or math.inf)
    return datetime.fromtimestamp(at, UTC)
