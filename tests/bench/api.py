"""Submissions to one web process on PostgreSQL, one by one and a thousand at a time, and what each costs it."""

import http.client
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from launch import postgres
from tests import valkey
from tests.bench._web import cpu_s, web

HOSTS, CARDS = 500, 8
CALLERS = 8  # at the same time
WARM_S, MEASURE_S = 3.0, 15.0
BULK, BULKS, BULK_CALLERS = 1000, 10, 2
DOCUMENT = {
    "business_flag": "ads",
    "GPUName": "P40,M40",
    "host_num": 1,
    "host_gpu_num": 2,
    "is_elasticity": True,
    "enable_evicted_pulled_up": True,
    "start_cmd": "python train.py --epochs $EPOCHS",
    "env": {"EPOCHS": "3", "S3_KEY": {"value": "s3cr3t-value", "secret": True}},
    "tags": ["bench"],
    "time_limit": "2h",
}


def run() -> dict[str, float | int]:
    """Fill a database, start the web process of the product, and submit to it; no pass runs meanwhile."""
    with postgres.server() as url, tempfile.TemporaryDirectory(prefix="valkey-", dir="/tmp") as folder:
        server = valkey.start(Path(folder))
        try:
            os.environ |= {
                "DATABASE_URL": url,
                "REDIS_URL": f"unix://{server.unix_socket_path}",
                "TAIJI_API_RATE": "1000000000",  # counted, but never enough
            }
            import django

            django.setup()
            token = _fill()
            with web() as (port, pid):
                return _single(port, pid, token) | _bulk(port, pid, token)
        finally:
            server.stop()


def _fill() -> str:
    """Write a business with a fleet; return the token of a member."""
    from django.core.management import call_command
    from django.db import connection

    from cluster.models import Card
    from quotas.models import ApiToken
    from tests.world import World

    call_command("migrate", verbosity=0)
    world = World()
    for number in range(HOSTS):
        world.host(f"h{number}", CARDS, "P40" if number % 2 else "M40")
    world.business("ads", P40=1000, M40=1000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    assert Card.objects.count() == HOSTS * CARDS
    return ApiToken.objects.issue(world.user("ann", "ads"), "bench")


class Caller(threading.Thread):
    """Posts the same body over one connection until it is told to stop."""

    def __init__(self, port: int, token: str, path: str, body: object, until: float, most: int) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        self._path, self._body = f"/api/v1/{path}", json.dumps(body).encode()
        self._until, self._most = until, most
        self.answered: list[float] = []  # when, on the clock of time.monotonic
        self.fault = ""

    def run(self) -> None:
        """Post until the time is over or it was often enough."""
        while time.monotonic() < self._until and len(self.answered) < self._most and not self.fault:
            self._connection.request("POST", self._path, self._body, self._headers)
            answer = self._connection.getresponse()
            said = answer.read()
            if answer.status not in {200, 201} or b'"status":400' in said:
                self.fault = f"{answer.status} {said[:300]!r}"
            self.answered.append(time.monotonic())


def _single(port: int, pid: int, token: str) -> dict[str, float | int]:
    began = time.monotonic()
    callers = [
        Caller(port, token, "tasks/", DOCUMENT, began + WARM_S + MEASURE_S, sys.maxsize)
        for _ in range(CALLERS)
    ]
    for caller in callers:
        caller.start()
    time.sleep(WARM_S)
    since, used_s = time.monotonic(), cpu_s(pid)
    for caller in callers:
        caller.join()
    took, used_s = time.monotonic() - since, cpu_s(pid) - used_s
    _check(callers)
    number = sum(at >= since for caller in callers for at in caller.answered)
    return {"submit_per_s": round(number / took, 1), "submit_cpu_ms": round(1000 * used_s / number, 2)}


def _bulk(port: int, pid: int, token: str) -> dict[str, float | int]:
    from jobs.models import Task

    documents = [DOCUMENT | {"task_flag": f"t{n}", "host_gpu_num": 1 + n % CARDS} for n in range(BULK)]
    began = time.monotonic()
    first = [Caller(port, token, "tasks/bulk/", {"tasks": documents}, began + 600, 1)]
    _run(first)
    before, began, used_s = Task.objects.count(), time.monotonic(), cpu_s(pid)
    each = BULKS // BULK_CALLERS
    _run(
        [
            Caller(port, token, "tasks/bulk/", {"tasks": documents}, began + 600, each)
            for _ in range(BULK_CALLERS)
        ]
    )
    took, used_s = time.monotonic() - began, cpu_s(pid) - used_s
    number = Task.objects.count() - before
    assert number == BULKS * BULK
    return {
        "bulk_tasks_per_s": round(number / took),
        "bulk_task_cpu_ms": round(1000 * used_s / number, 3),
        "load_1m": round(os.getloadavg()[0], 1),
    }


def _run(callers: list[Caller]) -> None:
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    _check(callers)


def _check(callers: list[Caller]) -> None:
    if faults := [caller.fault for caller in callers if caller.fault]:
        sys.exit(f"A submission failed: {faults[0]}")
