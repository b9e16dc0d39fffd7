"""The programs that are started here, as a supervisor on each machine would: again after every end."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.agent import processes
from launch.member import PR_SET_PDEATHSIG
from launch.places import ROOT
from launch.postgres import Cluster

AGAIN_S = 1.0
# What is written is never lost by the end of a process, only by that of the machine, which stays up here.
SETTINGS = ("fsync=off", "full_page_writes=off", "max_connections=200")


class Program:
    """One program that is kept running, except while it is meant to be away."""

    def __init__(self, name: str, argv: Sequence[str], env: dict[str, str], log: Path) -> None:
        """Know how to start it; nothing is started."""
        self.name, self.argv, self.env, self.log = name, list(argv), env, log
        self._process: subprocess.Popen[bytes] | None = None
        self._due: float | None = None  # when it is to be started again; None: it is meant to run

    @property
    def pids(self) -> list[int]:
        """Return its process, where it runs."""
        return [self._process.pid] if self._process and self._process.poll() is None else []

    def start(self) -> None:
        """Start it where it does not run."""
        if self.pids:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.argv,
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
                start_new_session=True,
            )

    def kill(self, away_s: float) -> None:
        """KILL it, and let it be away for so long."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._due = time.monotonic() + away_s

    def tend(self) -> bool:
        """Start it again a while after it ended; return whether it was just found to have ended by itself."""
        if self._process is None or self.pids:
            return False
        if self._due is None:
            self._due = time.monotonic() + AGAIN_S
            return True
        if time.monotonic() >= self._due:
            self._due = None
            self.start()
        return False

    def end(self) -> None:
        """End it for good."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Database:
    """A PostgreSQL server that may be killed at any moment and is started again."""

    def __init__(self, cluster: Cluster) -> None:
        """Know its data folder; nothing is started."""
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None
        self._not_before = 0.0

    @property
    def pids(self) -> list[int]:
        """Return all its processes, that which starts the others first."""
        if self._process is None or self._process.poll() is not None:
            return []
        return [self._process.pid, *_children(self._process.pid)]

    def start(self) -> None:
        """Start it, and wait until it answers; raises Refusal."""
        self._process = self._cluster.start(SETTINGS)
        self._cluster.wait(self._process)

    def kill(self, away_s: float) -> None:
        """KILL all of it, and let it be away for so long."""
        for pid in self.pids:
            _send(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self._not_before = time.monotonic() + away_s

    def tend(self) -> None:
        """Start it again where it ended; it refuses as long as a process of the old one is left."""
        if self._process is None or self._process.poll() is None or time.monotonic() < self._not_before:
            return
        self._process = self._cluster.start(SETTINGS)
        self._not_before = time.monotonic() + AGAIN_S

    def end(self) -> None:
        """End it for good."""
        if self._process is None:
            return
        for pid in self.pids:
            _send(pid, signal.SIGCONT)
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill(0.0)
        self._process = None


def _children(parent: int) -> list[int]:
    return [process.pid for process in processes.table().values() if process.parent == parent]


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
