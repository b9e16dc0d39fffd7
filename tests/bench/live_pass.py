"""The whole live pass on PostgreSQL: load, decide, apply, and how long others wait for a row meanwhile."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launch import postgres
from tests import valkey

WAITING = 10_000
IDLE = 9  # idle passes to take the median of
QUIET_S = 1.0  # so long the probe writes before the pass, to be compared with


def run() -> dict[str, float | int]:
    """Fill a database with a fleet, run one pass that starts and evicts, then idle ones."""
    with postgres.server() as url, tempfile.TemporaryDirectory(prefix="valkey-", dir="/tmp") as folder:
        server = valkey.start(Path(folder))  # hints are sent as they are in the product
        try:
            os.environ |= {"DATABASE_URL": url, "REDIS_URL": f"unix://{server.unix_socket_path}"}
            import django

            django.setup()
            return _measure()
        finally:
            server.stop()


def _measure() -> dict[str, float | int]:
    from django.core.management import call_command
    from django.db import connection
    from django.utils import timezone

    from cluster import hints
    from cluster.models import Host
    from jobs.engine import passes
    from tests.bench import _fleet, _rows

    call_command("migrate", verbosity=0)
    _rows.write(_fleet.fleet(WAITING, now=time.time()))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    Host.objects.update(last_seen_at=timezone.now())  # filling took a while
    hints.wake_pass()  # what sends it is loaded at the first time, which in a worker was long ago
    queries = Counted()
    with _probe() as longest:
        time.sleep(QUIET_S)
        quiet_ms = longest()
        with connection.execute_wrapper(queries):
            total_ms, done = _timed(passes.run)
        lock_ms = longest()
    idle: list[float] = []
    while len(idle) < IDLE:  # what a pass did is a change to the next, which is not idle
        took_ms, found = _timed(passes.run)
        idle += [] if found.planned else [took_ms]
    return {
        "load_ms": round(done.load_ms, 1),
        "decide_ms": round(done.decide_ms, 1),
        "apply_ms": round(done.apply_ms, 1),
        "total_ms": round(total_ms, 1),
        "idle_ms": round(statistics.median(idle), 1),
        "lock_ms_max": round(lock_ms, 1),
        "quiet_ms_max": round(quiet_ms, 1),
        "queries": queries.number,
        "starts": done.starts,
        "evictions": done.evictions,
    }


class Counted:
    """Counts the statements of a connection."""

    number = 0

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        """Count one and execute it."""
        self.number += 1
        return execute(*arguments)


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = call()
    return (time.perf_counter() - began) * 1000, found


@contextmanager
def _probe() -> Iterator[Callable[[], float]]:
    """Let others write meanwhile; give a function that says how long (ms) their longest write took since asked."""
    command = [sys.executable, "-m", "tests.bench._probe"]
    probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert probe.stdin is not None
    assert probe.stdout is not None
    ask, answer = probe.stdin, probe.stdout

    def longest() -> float:
        ask.write("\n")
        ask.flush()
        return float(answer.readline()) * 1000

    longest()  # it is started, and its first writes are not counted
    try:
        yield longest
    finally:
        ask.close()
        probe.wait(timeout=30)
