"""Which engine a host has, what an order says of its container, and what the guide says of the options."""

import argparse
import errno
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from cluster.agent import container, engine, offers, workload
from cluster.agent.agent import FIRST_LOOK_S
from cluster.agent.container import Container
from cluster.agent.container_spec import device_nodes, read_container
from cluster.agent.engine import (
    EngineAway,
    EngineFault,
    NewContainer,
    candidates,
    is_choice,
    limits_of,
    open_engine,
    tagged,
)
from cluster.agent.offers import Offers
from cluster.agent.options import arguments
from cluster.agent.orders import BadSpec, read_spec
from cluster.agent.workload import CannotStart
from tests.agent.conftest import ROOT, Machine, new_id, spec

PODMAN, DOCKER = "podman:/run/podman/podman.sock", "docker:/var/run/docker.sock"


@pytest.mark.parametrize(
    ("choice", "uid", "found"),
    [
        ("auto", 0, [PODMAN, DOCKER]),
        ("none", 0, []),
        ("podman", 0, [PODMAN]),
        ("docker", 1000, [DOCKER]),
        ("podman", 1000, ["podman:/run/user/1000/podman/podman.sock"]),
        ("docker:/x/y.sock", 0, ["docker:/x/y.sock"]),
    ],
)
def test_the_operators_choice_says_where_to_look(choice: str, uid: int, found: list[str]) -> None:
    assert is_choice(choice)
    assert candidates(choice, {}, uid) == found


def test_an_ordinary_users_podman_listens_in_his_run_folder() -> None:
    assert candidates("podman", {"XDG_RUNTIME_DIR": "/r"}, 7) == ["podman:/r/podman/podman.sock"]


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_an_engine_that_does_not_answer_is_away(kind: str, tmp_path: Path) -> None:
    with pytest.raises(EngineAway):
        open_engine(f"{kind}:{tmp_path}/none.sock").ping()


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine.MODULES, "podman", "cluster.agent.no_such_module")
    with pytest.raises(EngineFault, match=r"is not installed \(pip install 'taiji-agent\[podman\]'\)"):
        open_engine(PODMAN)


def test_a_host_with_no_engine_offers_plain_processes(tmp_path: Path) -> None:
    none = Offers(processes=True, engine=f"podman:{tmp_path}/none.sock")
    assert (none.refresh(), none.now, none.engine) == (False, ("process",), None)
    nothing = Offers(processes=False, engine="none")
    assert (nothing.refresh(), nothing.now) == (False, ())


@pytest.mark.parametrize(
    ("image", "said"),
    [("a", False), ("h:5000/a", False), ("a:1", True), ("h:5000/a:1", True), (f"a@sha256:{'0' * 64}", True)],
)
def test_a_tag_or_a_digest_says_which_version_is_meant(image: str, said: bool) -> None:
    assert tagged(image) is said


def test_an_order_of_before_containers_is_one_of_plain_processes() -> None:
    assert read_spec(spec("true")).container is None


def test_what_an_order_does_not_say_of_its_container_is_no_limit() -> None:
    found = read_container({"image": "a:1"})
    assert found is not None
    assert (found.memory_mib, found.cpus, found.shm_mib, found.pids, found.read_only) == (0, 0.0, 0, 0, False)
    assert (found.network, found.user, found.registry, found.pull_timeout_s) == ("host", "", None, 600.0)


@pytest.mark.parametrize(
    ("container", "fault"),
    [
        ({}, "lacks image"),
        ({"image": "a", "network": "container:x"}, "'container:x' is not a network"),
        ({"image": "a", "user": "root"}, "'root' is not a UID:GID"),
        ({"image": "a", "memory_mib": "much"}, "cannot be read"),
        ({"image": "a", "registry": {"username": "u"}}, "lacks password"),
        ("a", "cannot be read"),
    ],
)
def test_a_container_that_cannot_be_made_is_refused(container: Any, fault: str) -> None:
    with pytest.raises(BadSpec, match=fault):
        read_spec(spec("true", container=container))


def test_a_card_is_looked_for_by_its_own_device(tmp_path: Path) -> None:
    for bus, uuid, minor in (("0000:01", "GPU-a", 0), ("0000:02", "GPU-b", 5)):
        (tmp_path / bus).mkdir()
        words = f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"
        (tmp_path / bus / "information").write_text(words)
    assert device_nodes(["GPU-b"], tmp_path) == ["/dev/nvidiactl", "/dev/nvidia5"]
    assert device_nodes(["MIG-c"], tmp_path) == ["/dev/nvidiactl"]
    assert device_nodes([], tmp_path) == []


class Away(ThreadingUnixStreamServer):
    """An engine that takes calls and answers none until `back`; then it works, and can do nothing."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        self.back = threading.Event()
        super().__init__(path, Answers)


class Answers(BaseHTTPRequestHandler):
    server: Away

    def do_HEAD(self) -> None:
        self.server.back.wait()
        self.send_response(200 if self.path.endswith("/_ping") else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_HEAD

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def hanging() -> Iterator[tuple[str, threading.Event]]:
    """Give the address of a Podman that hangs until the event."""
    with tempfile.TemporaryDirectory(prefix="taiji-") as folder, Away(f"{folder}/s") as away:
        threading.Thread(target=away.serve_forever, args=(0.02,), daemon=True).start()
        yield f"podman:{folder}/s", away.back
        away.back.set()
        away.shutdown()


def test_an_engine_that_hangs_holds_up_the_first_report_and_plain_tasks_little_and_fails_no_container(
    machine: Machine,
) -> None:
    platform, plain, boxed = machine.platform, new_id(), new_id()
    platform.want(plain, spec("echo up"))
    platform.want(boxed, spec("echo never", cards=[1], container={"image": "a:1"}))
    with hanging() as (address, back):
        machine.start("--engine", address)
        assert platform.phase(plain, "gone", FIRST_LOOK_S + 8)["exit_code"] == 0
        assert platform.reports[0]["offers"][0] == "process"
        assert "container" not in platform.reports[0]["offers"]
        assert platform.seen(boxed) is None
        back.set()
        report = platform.phase(boxed, "gone")
        assert report["detail"].startswith("The image a:1 cannot be had")
        assert "container" in platform.reports[-1]["offers"]


@pytest.mark.parametrize(("cpus", "quota"), [(0.0, None), (0.001, 1000), (0.5, 50_000)])
def test_a_container_gets_as_little_of_the_processors_as_the_kernel_takes(
    cpus: float, quota: int | None
) -> None:
    texts: dict[str, Any] = dict.fromkeys(("name", "image", "work_dir", "user"), "a")
    parts: dict[str, Any] = dict.fromkeys(("argv", "mounts", "gpus", "devices"), ())
    limits: dict[str, Any] = {**dict.fromkeys(("memory_mib", "shm_mib", "pids"), 0), "cpus": cpus}
    wanted = NewContainer(**texts, **parts, **limits, labels={}, env={}, network="none", read_only=False)
    assert limits_of(wanted).get("cpu_quota") == quota


def test_an_engine_that_hangs_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "PING_S", 1)
    with hanging() as (address, back):
        found = Offers(processes=True, engine=address)
        assert (found.looked, found.refresh(), found.looked, found.engine) == (False, False, True, None)
        back.set()
        assert (found.refresh(), found.engine) == (True, address)


def test_an_engine_that_hangs_leaves_the_processes_most_of_their_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "REMOVE_S", 0.2)
    with hanging() as (address, _back):
        wanted = {"image": "a:1", "engine": address, "registry": None, "pull_timeout_s": 5}
        boxed = Container(str(tmp_path), spec("true", exit_command="true", grace_s=4.5, container=wanted))
        boxed.engine = engine.open_engine(address, 3)
        boxed.asked = True
        began = time.monotonic()
        assert not boxed.run_exit_command()
        assert time.monotonic() - began < 3  # of 4.5
        assert boxed.clear() == {}
        assert time.monotonic() - began < 7  # the agent removes it


class Pulls:
    """An engine whose pull goes as a test wants it."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault

    def has_image(self, image: str) -> bool:
        return False

    def pull(self, image: str, credentials: object) -> Iterator[str]:
        yield "one layer"
        if self.fault:
            raise self.fault


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (None, ""),
        (EngineFault("no space left on device"), "The image a:1 cannot be had: no space left on device."),
        (ValueError("no JSON"), "The image a:1 cannot be had: the pull broke off: no JSON."),
    ],
)
def test_a_pull_on_a_full_disk_goes_on_and_says_what_the_engine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception | None, said: str
) -> None:
    def full(_folder: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(workload, "open_log", full)
    monkeypatch.setattr(engine, "open_engine", lambda address: Pulls(fault))
    wanted = {"image": "a:1", "engine": PODMAN, "registry": None, "pull_timeout_s": 5}
    boxed = Container(str(tmp_path), spec("true", container=wanted))
    if not said:
        boxed.prepare(lambda: False)
        return
    with pytest.raises(CannotStart) as caught:
        boxed.prepare(lambda: False)
    assert (str(caught.value), caught.value.cause) == (said, "image")


def test_the_guide_names_every_option() -> None:
    guide = (ROOT / "docs/agent.md").read_text()
    groups = [a for a in arguments()._actions if isinstance(a, argparse._SubParsersAction)]
    for command in groups[0].choices.values():
        for action in command._actions:
            for option in action.option_strings:
                assert option in guide or option in {"-h", "--help"}, option
    for variable in re.findall(r"TAIJI_AGENT_\w+", guide):
        assert variable.removeprefix("TAIJI_AGENT_").lower() in {
            action.dest for action in groups[0].choices["run"]._actions
        }
