"""One scheduling pass: take the lease or leave, reconcile, load, decide, apply."""

import gc
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from django.utils import timezone

from cluster import hints, inventory
from jobs.engine import lease, reconcile, snapshot
from jobs.engine.apply import apply
from jobs.scheduling.decide import decide

log = logging.getLogger(__name__)
HOLDER = f"{socket.gethostname()[:48]}:{os.getpid()}"  # a host's name may fill the column alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one pass did; times in milliseconds."""

    moved: int  # attempts that reconciling moved
    starts: int
    evictions: int
    reconcile_ms: float
    load_ms: float
    decide_ms: float
    apply_ms: float


def run(wait_s: float = 1.0) -> Done | None:
    """Run a pass; None where another process holds the lease for all of `wait_s` seconds.

    Waiting matters: a change that asked for this pass may have come after the other one read it.
    """
    fence = lease.take(HOLDER, wait_s)
    if fence is None:
        return None
    began = time.perf_counter()
    try:
        with _collector_paused():
            done = _run(fence)
    except lease.StaleHolder as error:
        log.warning("pass given up: %s", error)
        return None
    except BaseException:
        lease.let_go(fence)
        raise
    lease.give_back(fence, (time.perf_counter() - began) * 1000)
    return done


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a snapshot is some 100,000 objects without cycles, gone after the pass."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _run(fence: int) -> Done:
    marks = [time.perf_counter()]
    hints.pass_begins()
    policy = snapshot.policy()
    now = timezone.now()
    inventory.sweep(now, policy.lost_after_s)
    moved = reconcile.run(now, policy)
    marks.append(time.perf_counter())
    loaded = snapshot.load(time.time(), policy.fair_half_life_s)
    marks.append(time.perf_counter())
    plan = decide(loaded.snapshot, policy)
    marks.append(time.perf_counter())
    changed = apply(plan, loaded, fence)
    marks.append(time.perf_counter())
    spent = [(after - before) * 1000 for before, after in pairwise(marks)]
    return Done(
        moved=moved,
        starts=changed.starts,
        evictions=changed.evictions,
        reconcile_ms=spent[0],
        load_ms=spent[1],
        decide_ms=spent[2],
        apply_ms=spent[3],
    )
