"""The broker and the worker at their worst: what is lost or killed costs a period of the beat, and no task."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from urllib.parse import unquote

import pytest
import redis

from tests.system.product import Product, document
from tests.system.test_up_and_down import eventually

pytestmark = pytest.mark.system
PERIOD_S = 2.0


def broker(product: Product) -> redis.Redis:
    socket = product.places.run / "valkey.sock"
    return redis.Redis(unix_socket_path=unquote(str(socket)))


def state(product: Product, task: int) -> str:
    return str(product.api.get(f"tasks/{task}/").json()["state"])


def runs_after(product: Product, harm: Callable[[], object], within_s: float = 30.0) -> float:
    """Do harm, submit a task at once, and return after how many seconds it has succeeded."""
    harm()
    began = time.monotonic()
    answer = product.api.post("tasks/", json=document("true"))
    assert answer.status_code == 201, answer.text
    task = answer.json()["id"]
    assert eventually(lambda: state(product, task) == "succeeded", within_s), product.logs()
    return time.monotonic() - began


def test_a_broker_that_is_flushed_stopped_or_killed_loses_no_task(product: Product) -> None:
    product.up()
    runs_after(product, lambda: None)
    with broker(product) as client:
        runs_after(product, client.flushall)
    pid = product.pid("valkey")
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2 * PERIOD_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    runs_after(product, lambda: None)
    runs_after(product, lambda: product.kill("valkey"), 60)
    health = product.api.get("scheduler/").json()
    assert not health["late"]


def test_while_the_broker_or_the_beat_is_away_tasks_start_and_end_all_the_same(product: Product) -> None:
    product.up()
    runs_after(product, lambda: None)
    for name in ("valkey", "beat"):
        pid = product.pid(name)
        try:
            runs_after(product, lambda pid=pid: os.kill(pid, signal.SIGSTOP), 60)  # type: ignore[misc]
        finally:
            os.kill(pid, signal.SIGCONT)
    runs_after(product, lambda: None)


def test_a_beat_that_runs_twice_does_nothing_twice(product: Product) -> None:
    product.up()
    command = [str(product.places.python), "-m", "celery", "-A", "taiji_site", "beat", "--pidfile", ""]
    other = subprocess.Popen(
        [*command, "--schedule", str(product.places.run / "other-beat"), "--loglevel", "ERROR"],
        cwd=product.root,
        env=product.env,
    )
    try:
        time.sleep(2 * PERIOD_S)
        for _ in range(5):
            runs_after(product, lambda: None)
    finally:
        other.terminate()
        other.wait(20)
    tasks = product.api.get("tasks/").json()["results"]
    found = [product.api.get(f"tasks/{task['id']}/").json() for task in tasks]
    assert len(found) == 5
    assert {(one["state"], len(one["attempts"])) for one in found} == {("succeeded", 1)}


def test_a_worker_killed_in_the_middle_of_its_passes_loses_nothing(product: Product) -> None:
    product.up()
    tasks: list[int] = []
    for _ in range(3):
        tasks += [product.api.post("tasks/", json=document("true")).json()["id"] for _ in range(6)]
        before = product.kill("worker")  # each of them asked for a pass just now

        def is_back(before: int = before) -> bool:
            return product.pid("worker") not in {0, before}

        assert eventually(is_back, 30)
    assert eventually(lambda: all(state(product, task) == "succeeded" for task in tasks), 90), product.logs()
    found = [product.api.get(f"tasks/{task}/").json() for task in tasks]
    assert {len(one["attempts"]) for one in found} == {1}
