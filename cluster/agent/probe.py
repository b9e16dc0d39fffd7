"""Ask a process of its own what NVML says, so that a driver that hangs or was replaced holds nobody up."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from typing import Any

from cluster.agent.python import ROOT

COMMAND = (
    *(sys.executable, "-I", "-X", "utf8", "-c"),
    "import sys; sys.path.append(sys.argv[1]); from cluster.agent.nvml import main; main()",
    ROOT,
)
FIRST_S = 60.0  # a driver without persistence mode wakes every card at the first call
ANSWER_S = 15.0
LISTEN_S = 0.25  # how soon a look is given up when the agent ends


class NoCards(Exception):
    """NVML cannot be used; the message says why in one sentence."""


class Probe:
    """The process that speaks with NVML: started when it is asked, anew when it is gone, killed when it hangs."""

    def __init__(self, first_s: float = FIRST_S, answer_s: float = ANSWER_S) -> None:
        """Wait so long for the first answer of a process, and for each further one."""
        self._first_s = first_s
        self._answer_s = answer_s
        self._process: subprocess.Popen[bytes] | None = None
        self._hung: subprocess.Popen[bytes] | None = None  # killed, and the kernel does not let go of it
        self._closed = threading.Event()

    def look(self) -> dict[str, Any]:
        """Return what nvml.Driver.look does; raises NoCards. One thread at a time."""
        for fresh in (self._process is None, True):
            if fresh:
                self._start()
            line = self._ask(self._first_s if fresh else self._answer_s)
            if line:
                break
            self.end()  # it saw that another library lies on the disk now, or somebody killed it
        return self._read(line)

    def _read(self, line: bytes) -> dict[str, Any]:
        if not line:
            raise NoCards("The process that asks NVML ends at once")
        answer: dict[str, Any] = json.loads(line)
        if "unusable" in answer:
            self.end()
            raise NoCards(str(answer["unusable"]))
        return answer

    def _start(self) -> None:
        if self._hung is not None and self._hung.poll() is None:
            raise NoCards("NVML does not answer, and its process cannot be ended: the driver hangs")
        self._hung = None
        self.end()
        # Its words for people go where the agent's go.
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd="/"
        )

    def _ask(self, within_s: float) -> bytes:
        """Return the answer, blank where the process has ended; raises NoCards where it hangs."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
            return self._line(time.monotonic() + within_s)
        except BrokenPipeError:
            return b""
        except TimeoutError as error:
            self.end()
            raise NoCards(f"NVML does not answer within {within_s:g} s: the driver hangs") from error

    def _line(self, deadline: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        found = bytearray()
        while not found.endswith(b"\n"):
            if time.monotonic() > deadline or self._closed.is_set():
                raise TimeoutError
            if select.select([self._process.stdout], [], [], LISTEN_S)[0]:
                part = os.read(self._process.stdout.fileno(), 2**16)
                if not part:
                    return b""
                found += part
        return bytes(found)

    def end(self) -> None:
        """Kill the process; one that the kernel does not let go of is left behind, and remembered."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        process.kill()
        try:
            process.wait(LISTEN_S)
        except subprocess.TimeoutExpired:
            self._hung = process

    def close(self) -> None:
        """Give up a look that is under way, from another thread: the agent ends."""
        self._closed.set()
