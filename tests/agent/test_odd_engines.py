"""An engine that answers nonsense is away, and what it names that is not its own is left alone."""

import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from cluster.agent import container, processes
from cluster.agent.container import Container
from cluster.agent.engine import Engine, EngineAway, EngineFault, NewContainer, open_engine
from cluster.agent.offers import Offers
from cluster.agent.workload import CannotStart
from tests.agent.conftest import Machine, new_id, spec

NONSENSE = (
    *(b"", b"null", b"[]", b"{}", b"7", b'"x"', b"<html>", b"\xff\xfe", b"[null]", b"[{}]", b"[7]"),
    *(b'{"State": null}', b'{"State": {"Pid": "x"}}', b'{"host": null}', b'{"ApiVersion": 1}'),
    b'[{"Id": "1", "Names": null, "Labels": null}]',
)
CALLS: dict[str, Callable[[Engine], object]] = {
    "is_rootless": lambda works: works.is_rootless(),
    "has_image": lambda works: works.has_image("a:1"),
    "create": lambda works: works.create(wanted()),
    "start": lambda works: works.start("a"),
    "pid": lambda works: works.pid("a"),
    "execute": lambda works: works.execute("a", ("true",), {}),
    "kill": lambda works: works.kill("a"),
    "remove": lambda works: works.remove("a"),
    "owned": lambda works: works.owned("/x"),
}


def wanted() -> NewContainer:
    texts: dict[str, Any] = dict.fromkeys(("name", "image", "work_dir", "user"), "a")
    parts: dict[str, Any] = dict.fromkeys(("argv", "mounts", "gpus", "devices"), ())
    limits: dict[str, Any] = dict.fromkeys(("memory_mib", "shm_mib", "pids", "cpus"), 0)
    return NewContainer(**texts, **parts, **limits, labels={}, env={}, network="none", read_only=False)


class Babbler(ThreadingUnixStreamServer):
    """An engine that answers every call alike."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        self.status, self.body = 200, b""
        super().__init__(path, Answers)


class Answers(BaseHTTPRequestHandler):
    server: Babbler

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.server.body)

    do_HEAD = do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def babbling() -> Iterator[tuple[Babbler, str]]:
    """Give an engine of nonsense and its socket."""
    with tempfile.TemporaryDirectory(prefix="taiji-") as folder, Babbler(f"{folder}/s") as babbler:
        threading.Thread(target=babbler.serve_forever, args=(0.02,), daemon=True).start()
        yield babbler, f"{folder}/s"
        babbler.shutdown()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_nonsense_is_told_as_a_fault_of_the_engine(kind: str, call: str) -> None:
    with babbling() as (babbler, socket):
        for status in (200, 201, 404, 500):
            for body in NONSENSE:
                babbler.status, babbler.body = status, body
                with suppress(EngineAway, EngineFault):  # whatever else it were would end the agent
                    CALLS[call](open_engine(f"{kind}:{socket}", 5))


@pytest.mark.parametrize("body", NONSENSE)
@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_a_host_whose_engine_answers_nonsense_looks_again_later(kind: str, body: bytes) -> None:
    with babbling() as (babbler, socket):
        babbler.body = body
        offers = Offers(processes=True, engine=f"{kind}:{socket}")
        offers.refresh()
        assert "process" in offers.now


def test_an_agent_whose_engine_answers_nonsense_runs_plain_tasks(machine: Machine) -> None:
    platform, first, second = machine.platform, new_id(), new_id()
    with babbling() as (babbler, socket):
        babbler.body = b"[null]"
        machine.start("--engine", f"podman:{socket}")
        platform.want(first, spec("true"))
        assert platform.phase(first, "gone")["exit_code"] == 0
        platform.until(lambda: "Nobody knows which containers" in machine.said())  # it was asked for them
        platform.want(second, spec("true"))
        assert platform.phase(second, "gone")["exit_code"] == 0


class Elsewhere:
    """An engine of another machine: what it names is a process of somebody else's here."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.removed = False

    def is_rootless(self) -> bool:
        return False

    def create(self, wanted: NewContainer) -> None:
        """Make nothing."""

    def start(self, name: str) -> None:
        """Start nothing."""

    def pid(self, name: str) -> int:
        return self._pid

    def kill(self, name: str) -> None:
        """Kill nothing."""

    def remove(self, name: str) -> None:
        self.removed = True


def test_a_process_of_somebody_else_is_never_taken_for_the_container_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "SEEN_S", 0.2)
    stranger = subprocess.Popen(["sh", "-c", "sleep 60; true"])
    try:
        folder = tmp_path / new_id()
        folder.mkdir()
        asked = {"image": "a:1", "engine": "podman:/s", "registry": None, "pull_timeout_s": 5}
        limits = dict.fromkeys(container.LIMITS, 0)
        besides = {"owner": "/x", "devices": [], "besides": [], "gpus": []}
        task = spec("true", env={"TAIJI_STORAGE": "/s"}, user="", container=asked | limits | besides)
        boxed = Container(str(folder), task)
        elsewhere = Elsewhere(stranger.pid)
        boxed.engine = elsewhere  # type: ignore[assignment]  # no more of an engine is needed here
        with pytest.raises(CannotStart, match=f"not among this host's \\(pid {stranger.pid} is another's\\)"):
            boxed.start()
        boxed.kill()
        assert (elsewhere.removed, stranger.poll()) == (True, None)
        assert processes.below([stranger.pid], processes.table()), "nor what it has started"
    finally:
        processes.kill_all(lambda: processes.below([stranger.pid], processes.table()))
        stranger.kill()
        stranger.wait()
