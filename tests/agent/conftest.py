"""Real agents against a stand-in platform."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.agent import processes, records
from cluster.agent.cgroups import Group
from tests.agent import engines
from tests.agent.engines import Service
from tests.agent.platform import JOIN, Platform
from tests.patience import WITHIN_S

ROOT = Path(__file__).resolve().parents[2]


def spec(command: str | None, **changes: Any) -> dict[str, Any]:
    """Return a spec that runs `command` alone on card 0, with little grace."""
    return {
        "label": "a test",
        "command": command,
        "exit_command": "",
        "grace_s": 1.0,
        "env": {},
        "cards": [0],
        "storage": "ads",
        "task_dir": "task-1",
        "hosts": [{"name": "h1", "address": "10.0.0.1", "cards": 1}],
        "rank": 0,
        "master_port": 20001,
        **changes,
    }


def new_id() -> str:
    """Return the id of a new instance."""
    return str(uuid.uuid4())


def marked(instance: str) -> list[int]:
    """Return the pids of what runs of `instance`, by its mark."""
    return [process.pid for process in processes.marked(instance, processes.table())]


class Machine:
    """One host: its folders, and the agent on it."""

    def __init__(self, platform: Platform, folder: Path) -> None:
        """Lay out the host in `folder`."""
        self.platform = platform
        self.state = folder / "state"
        self.storage = folder / "storage"
        self.storage.mkdir()
        self.join = folder / "join"
        self.join.write_text(JOIN + "\n")
        self.words = folder / "agent.txt"
        self.agent: subprocess.Popen[bytes] | None = None
        self.simulate = "P40:8"  # blank: NVML is asked

    def command(self, *more: str) -> list[str]:
        """Return the command of its agent."""
        options = {
            "--url": self.platform.url,
            "--name": "h1",
            "--state": str(self.state),
            "--storage": str(self.storage),
            "--join-token-file": str(self.join),
            "--engine": "none",
        }
        if self.simulate:
            options["--simulate"] = self.simulate
        if os.geteuid() == 0:
            options["--task-user"] = "root"
        given = [part for option in options.items() for part in option]
        return [sys.executable, "-m", "cluster.agent", "run", *given, *more]

    def start(self, *more: str, **environment: str) -> None:
        """Start its agent."""
        with self.words.open("ab") as words:
            self.agent = subprocess.Popen(
                self.command(*more), cwd=ROOT, stderr=words, env={**os.environ, "LANG": "C", **environment}
            )

    def end(self, number: int = signal.SIGTERM) -> int:
        """End its agent by a signal; return its exit code."""
        assert self.agent is not None
        self.agent.send_signal(number)
        return self.agent.wait(WITHIN_S)

    def folder(self, instance: str) -> Path:
        """Return the folder of `instance`."""
        return self.state / "instances" / instance

    def said(self) -> str:
        """Return what its agents said."""
        return self.words.read_text()

    def clear(self) -> None:
        """End all that was started here."""
        if self.agent is not None and self.agent.poll() is None:
            self.agent.kill()
            self.agent.wait()
        for folder in (self.state / "instances").glob("*"):
            end_instance(folder)


def end_instance(folder: Path) -> None:
    """End what runs of the instance whose folder this is, its keeper included, and remove its control group."""
    group = Group(records.read(str(folder), records.GROUPS) or {}, folder.name)

    def left() -> list[processes.Process]:
        everything = processes.table()
        keepers = [p for p in everything.values() if str(folder).encode() in _command_line(p.pid)]
        return [
            *keepers,
            *processes.below([p.pid for p in keepers], everything),
            *processes.marked(folder.name, everything),
            *group.processes(),
        ]

    group.seal()
    processes.kill_all(left)
    group.remove()


def _command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


@contextmanager
def stand_in(folder: Path) -> Iterator[Machine]:
    """Give a host, without a running agent, and its platform."""
    platform = Platform()
    machine = Machine(platform, folder)
    try:
        yield machine
    finally:
        machine.clear()
        platform.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Return a host whose agent a test starts when it likes."""
    with stand_in(tmp_path) as machine:
        yield machine


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Return a host whose agent runs, the same for all tests of a file."""
    with stand_in(tmp_path_factory.mktemp("host")) as machine:
        machine.start(TAIJI_SECRET_KEY="the-agent-s-own", DATABASE_URL="postgres://x")
        yield machine


@pytest.fixture(scope="module")
def podman() -> Iterator[Service]:
    """Return a Podman, the same for all tests of a file."""
    with engines.service() as service:
        yield service


@pytest.fixture(scope="module")
def podman_host(podman: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Return a host whose agent runs containers, the same for all tests of a file."""
    with stand_in(tmp_path_factory.mktemp("host")) as machine:
        machine.start("--engine", podman.choice)
        yield machine
