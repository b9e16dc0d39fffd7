"""Find, signal and watch processes by /proc, so that a pid used again is never taken for the old process."""

import contextlib
import ctypes
import errno
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable, Iterable

MARK = "TAIJI_INSTANCE_ID"  # the variable that every process of an instance carries
PR_SET_CHILD_SUBREAPER = 36
STOP_ROUNDS = 50


class Process:
    """One process: its pid and start tick name it for as long as the host is up."""

    __slots__ = ("parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        """Read the process from its `stat`; the name in it may hold spaces and brackets."""
        fields = stat[stat.rindex(b")") + 2 :].split()
        self.pid = pid
        self.state = fields[0].decode()
        self.parent, self.session = int(fields[1]), int(fields[3])
        self.start = int(fields[19])

    @property
    def dead(self) -> bool:
        """Whether only its entry is left: a zombie waits for its parent and runs no more."""
        return self.state in "ZX"

    @property
    def stopped(self) -> bool:
        """Whether a signal stopped it: others wait for it until one lets it go on."""
        return self.state == "T"


def boot_id() -> str:
    """Return what changes when the host is started anew."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def find(pid: int) -> Process | None:
    """Return the process `pid`, or None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Process(pid, file.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(pid: int, start: int) -> bool:
    """Return whether the process that had `pid` and `start` still runs."""
    process = find(pid)
    return process is not None and process.start == start and not process.dead


def table() -> dict[int, Process]:
    """Return every process of the host by pid, dead ones too."""
    found = (find(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process}


def below(roots: "Iterable[int]", processes: dict[int, Process]) -> list[Process]:
    """Return the living descendants of the pids `roots`, without the roots."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: dict[int, Process] = {}
    pending = list(roots)
    while pending:
        for child in children.get(pending.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                pending.append(child.pid)
    return [process for process in found.values() if not process.dead]


def marked(instance: str, processes: dict[int, Process]) -> list[Process]:
    """Return the living processes that carry the instance's mark in their first environment."""
    return carrying(f"{MARK}={instance}", processes.values())


def carrying(variable: str, processes: "Iterable[Process]") -> list[Process]:
    """Return the living among `processes` that have `variable`, a NAME=VALUE, in their first environment."""
    mark = variable.encode()
    return [process for process in processes if not process.dead and mark in _environment(process.pid)]


def may_be_of(instance: str, process: Process) -> bool:
    """Return whether `process` carries the instance's mark, or only its user may know."""
    try:
        with open(f"/proc/{process.pid}/environ", "rb") as file:
            return f"{MARK}={instance}".encode() in file.read().split(b"\0")
    except PermissionError:
        return True
    except (FileNotFoundError, ProcessLookupError):
        return False


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return []  # another user's, or gone: not of this instance


def adopt_orphans(yes: bool) -> None:
    """Become the parent of all descendants that lose theirs, or no longer; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def send(process: Process, number: int) -> None:
    """Send a signal to `process` and to no other that got its pid since."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        _send_by_pid(process, number)  # Linux before 5.3
        return
    try:
        # It may end meanwhile, or run as another user since (setuid): the caller looks again.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if alive(process.pid, process.start):
                signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _send_by_pid(process: Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # as in send
        if alive(process.pid, process.start):
            os.kill(process.pid, number)


def kill_all(look: "Callable[[], list[Process]]") -> None:
    """KILL everything that `look` finds, also what is being forked meanwhile: first nobody may move."""
    held: dict[tuple[int, int], Process] = {}
    for _ in range(STOP_ROUNDS):
        fresh = [process for process in look() if (process.pid, process.start) not in held]
        if not fresh:
            break
        for process in fresh:
            held[process.pid, process.start] = process
            send(process, signal.SIGSTOP)
    for process in held.values():
        send(process, signal.SIGKILL)
