"""The two commands."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from functools import partial

import httpx
import pytest

from launch import group, locks
from launch.places import ROOT
from tests.patience import WITHIN_S
from tests.system.product import Product

pytestmark = pytest.mark.system


def eventually(holds: Callable[[], bool], within_s: float = WITHIN_S) -> bool:
    """Say whether something comes true in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.1)
    return False


def test_the_product_starts_stops_and_starts_again_with_what_it_had(
    new_product: Product, record_property: Callable[[str, object], None]
) -> None:
    record_property("first_start_s", new_product.up())
    password = (new_product.places.data / "admin-password").read_text()
    hosts = [(row["id"], row["name"]) for row in new_product.api.get("hosts/").json()["results"]]
    assert {name for _, name in hosts} == {"sim-m40", "sim-p40"}
    new_product.down()
    record_property("second_start_s", new_product.up())
    assert (new_product.places.data / "admin-password").read_text() == password
    assert [(row["id"], row["name"]) for row in new_product.api.get("hosts/").json()["results"]] == hosts
    new_product.down()


def test_a_second_up_on_a_running_group_is_refused_and_disturbs_nothing(product: Product) -> None:
    product.up()
    before = product.members()
    done = product.script("up", "--detach")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"running already at {product.places.url} " in done.stderr
    assert product.members() == before


def test_a_busy_port_is_refused_in_one_sentence_before_anything_is_made(new_product: Product) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", new_product.port))
        other.listen()
        done = new_product.script("up", "--detach")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"Port {new_product.port} is in use" in done.stderr
    assert not (new_product.places.data / "taiji.sqlite3").exists()


def test_a_wrong_setting_is_refused_with_its_way_out(new_product: Product) -> None:
    new_product.env["TAIJI_DEBUG"] = "maybe"
    done = new_product.script("up", "--detach")
    assert done.returncode == 1
    assert "taiji.E002" in done.stderr
    assert "Set TAIJI_DEBUG to 1 or 0." in done.stderr


def test_an_empty_start_makes_the_operator_alone(new_product: Product) -> None:
    new_product.up("--empty")
    assert (new_product.places.data / "admin-token").exists()
    assert new_product.api.get("hosts/").json()["results"] == []
    assert new_product.api.get("businesses/").json()["results"] == []


def test_a_killed_supervisor_leaves_nothing_and_the_next_start_doubles_nothing(product: Product) -> None:
    product.up()
    names = [status.name for status in group.statuses(product.places)]
    lock = group.group_lock(product.places)
    os.kill(int(lock.read_text()), signal.SIGKILL)
    product.up()
    assert len(product.members()) == len(names)


def test_every_killed_program_comes_back_by_itself(product: Product) -> None:
    product.up()
    for name in ("agent-sim-p40", "web", "worker", "beat", "valkey"):
        before, since = product.kill(name), time.time()

        def is_back(name: str = name, before: int = before, since: float = since) -> bool:
            health = product.health()
            if health is None or product.pid(name) in {0, before}:
                return False
            reported = health.seen["sim-p40"] > since or not name.startswith("agent")
            return health.passed > since and reported

        assert eventually(is_back), f"{name} is not back:\n{product.logs()}"


def test_ctrl_c_in_the_foreground_stops_the_group(product: Product) -> None:
    command = [str(ROOT / "script" / "up")]
    # Who tests in the background has INT ignored, and what he starts would, too.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, env=product.env, stdout=subprocess.PIPE, text=True, preexec_fn=heard
    ) as up:
        assert up.stdout
        for line in up.stdout:
            if "Ctrl-C" in line:
                break
        assert len(product.members()) >= 6
        up.send_signal(signal.SIGINT)
        assert "Stopped. Running tasks go on" in up.communicate(timeout=WITHIN_S)[0]
    assert product.members() == []
    assert locks.is_free(group.group_lock(product.places))


def test_the_group_ends_when_its_foreground_start_is_killed(product: Product) -> None:
    command = [str(ROOT / "script" / "up")]
    with subprocess.Popen(command, env=product.env, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout
        for line in up.stdout:
            if "Ctrl-C" in line:
                break
        up.kill()
    assert eventually(lambda: product.members() == [] and locks.is_free(group.group_lock(product.places)))


def test_down_says_how_it_is_used_and_stops_nothing_then(product: Product) -> None:
    product.up()
    before = product.members()
    asked = product.script("down", "--help")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.startswith("usage: script/down")
    assert product.script("down", "now").returncode == 2
    assert product.members() == before


def test_down_where_nothing_runs_says_so(new_product: Product) -> None:
    done = new_product.script("down")
    assert done.returncode == 0
    assert "Nothing is running" in done.stdout


def test_a_program_that_keeps_ending_is_named_with_its_last_words_and_nothing_is_left(
    product: Product,
) -> None:
    product.env["UVICORN_LIMIT_CONCURRENCY"] = "many"
    done = product.script("up", "--detach")
    assert done.returncode == 1
    assert "does not come up (web)" in done.stderr
    assert "'many' is not a valid integer" in done.stderr
    assert product.members() == []


def test_a_server_of_another_name_starts_too(product: Product) -> None:
    product.env["TAIJI_ALLOWED_HOSTS"] = "taiji.example.com"
    product.up()
    stranger = httpx.get(f"{product.places.url}/healthz/", headers={"Host": "elsewhere.example.com"})
    assert stranger.status_code == 400
