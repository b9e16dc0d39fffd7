"""The whole live pass on PostgreSQL: load, decide, apply, and how long others wait for a row meanwhile."""

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from launch import postgres

WAITING = 10_000
PROBE_S = 0.005


def run() -> dict[str, float | int]:
    """Fill a database with a fleet, run one pass that starts and evicts, then idle ones."""
    with postgres.server() as url:
        os.environ["DATABASE_URL"] = url
        import django

        django.setup()
        return _measure()


def _measure() -> dict[str, float | int]:
    from django.core.management import call_command
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from jobs.engine import passes
    from tests.bench import _fleet, _rows

    call_command("migrate", verbosity=0)
    _rows.write(_fleet.fleet(WAITING, now=time.time()))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with _probe() as waits:
        began = time.perf_counter()
        done = passes.run()
        total_ms = (time.perf_counter() - began) * 1000
    assert done is not None
    idle = [_timed(passes.run) for _ in range(5)]
    with CaptureQueriesContext(connection) as queries:
        passes.run()
    return {
        "load_ms": round(done.load_ms, 1),
        "decide_ms": round(done.decide_ms, 1),
        "apply_ms": round(done.apply_ms, 1),
        "total_ms": round(total_ms, 1),
        "idle_ms": round(statistics.median(idle), 1),
        "lock_ms_max": round(max(waits) * 1000, 1),
        "queries": len(queries),
        "starts": done.starts,
        "evictions": done.evictions,
    }


def _timed(call: "object") -> float:
    began = time.perf_counter()
    call()  # type: ignore[operator]  # a function without arguments
    return (time.perf_counter() - began) * 1000


@contextmanager
def _probe() -> "Iterator[list[float]]":
    """Submit tasks and write to a host's row meanwhile, as the web server does; collect each's seconds."""
    from django.contrib.auth.models import User
    from django.db import connection

    from cluster.models import Host
    from quotas.models import Business

    waits: list[float] = []
    stop = threading.Event()
    user, business = User.objects.get(pk=11), Business.objects.get(pk=1)

    def ask() -> None:
        from jobs.models import Task

        while not stop.is_set():
            began = time.perf_counter()
            Host.objects.filter(pk=1).update(clock_offset_s=0.0)
            Task.objects.create(
                business=business, user=user, task_flag="probe", config={}, wanted_class="elastic",
                host_num=1, host_gpu_num=1, gpu_types=[1], state="held",
            )  # fmt: skip
            waits.append(time.perf_counter() - began)
            time.sleep(PROBE_S)
        connection.close()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        stop.set()
        thread.join()
