"""Keep one instance: start its command, end its whole tree, and leave an exit record when nothing is left.

A keeper outlives the agent that started it and needs none. It is a child subreaper, so whatever its
command starts, in whatever session or by whatever double fork, stays its descendant; when the kernel says
that it has no children any more, nothing of the instance is left.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from cluster.agent import processes, records

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable
    from typing import Any

SHELL = "/bin/sh"
PR_SET_CHILD_SUBREAPER = 36
# What a process is started with is inherited: ours would have it ignore SIGINT, SIGHUP and SIGPIPE.
USUAL = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
WATCHED = {signal.SIGCHLD, signal.SIGTERM}
LOOK_S = 0.05  # a grandchild's end sends the keeper no signal, so while ending it looks this often


class CannotStart(Exception):
    """The command was not started; the message says why in one sentence."""


class Keeper:
    """One instance from the claim to the exit record."""

    def __init__(self, folder: str, spec: "dict[str, Any]") -> None:
        """Keep the instance in `folder` as `spec` says."""
        self.folder = folder
        self.instance = os.path.basename(folder)
        self.spec = spec
        self.statuses: dict[int, int] = {}  # how the children ended that this keeper started, by pid
        self.main: int | None = None
        self.exit: int | None = None
        self.childless = True
        self.started_at: float | None = None

    def keep(self) -> None:
        """Run the instance to its end."""
        try:
            self.start()
        except CannotStart as fault:
            self.record_exit(ordered=False, detail=str(fault))
            return
        ordered = self.wait_for_end()
        self.end(ordered)
        self.record_exit(ordered)

    def start(self) -> None:
        """Make the folders and start the command; an idle member has none and only keeps its place."""
        if signal.SIGTERM in signal.sigpending():
            return
        make_folders(self.spec["storage_root"], self.spec["folders"])
        work = os.path.join(self.folder, records.WORK)
        try:
            os.mkdir(work, 0o700)
            os.chdir(work)
        except OSError as error:
            raise CannotStart(f"The work folder could not be made: {error.strerror}.") from error
        self.started_at = time.time()
        if self.spec["command"] is not None:
            self.main = self.spawn(self.spec["command"])
        self.record_status("running")

    def spawn(self, command: str) -> int:
        """Start `command` in a process group of its own, its output appended to the log; return its pid."""
        try:
            log = os.open(
                os.path.join(self.folder, records.LOG),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )
            pid = os.posix_spawn(
                SHELL,
                [SHELL, "-c", command],
                self.spec["env"],
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setpgroup=0,
                setsigmask=[],
                setsigdef=USUAL,
            )
        except (OSError, ValueError) as error:
            raise CannotStart(f"{SHELL} could not be started: {reason(error)}.") from error
        os.close(log)
        self.childless = False
        return pid

    def wait_for_end(self) -> bool:
        """Sleep until the command has ended or the end is ordered; return whether it was ordered."""
        while True:
            self.reap()
            if self.main in self.statuses:
                return False
            if signal.sigwait(WATCHED) == signal.SIGTERM:
                self.reap()  # a command that ended before the order ended by itself
                return self.main not in self.statuses

    def end(self, ordered: bool) -> None:
        """End the tree until nothing is left: exit command beside it, TERM, KILL after `grace_s`."""
        if not ordered and self.gone():
            return
        self.record_status("ending")
        grace_s = float(self.spec["grace_s"])
        deadline = time.monotonic() + grace_s
        if ordered and self.spec["exit_command"] and self.started_at:
            self.run_exit_command(deadline - min(3.0, grace_s / 10))
        for process in self.tree(spare_exit_command=True):
            processes.send(process, signal.SIGTERM)
        self.wait(deadline, self.gone)
        while not self.gone():
            processes.kill_all(self.tree)
            self.wait(time.monotonic() + 1.0, self.gone)

    def run_exit_command(self, until: float) -> None:
        """Run the exit command until it has ended, at most `until`; what it leaves ends with the rest."""
        try:
            self.exit = self.spawn(self.spec["exit_command"])
        except CannotStart as fault:
            note(f"exit command: {fault}")
            return
        self.wait(until, lambda: self.exit in self.statuses)

    def wait(self, until: float, done: "Callable[[], bool]") -> None:
        """Reap until `done` or the monotonic time `until`; further orders to end change nothing."""
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return
            signal.sigtimedwait(WATCHED, min(left, LOOK_S))
            self.reap()

    def reap(self) -> None:
        """Take the exit statuses of all children that ended."""
        while not self.childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                return
            if pid in (self.main, self.exit):
                self.statuses[pid] = status

    def tree(self, spare_exit_command: bool = False) -> "list[processes.Process]":
        """Return what lives of the instance; `spare_exit_command` leaves one still at work out."""
        everything = processes.table()
        found = {process.pid: process for process in processes.below([os.getpid()], everything)}
        found |= {process.pid: process for process in processes.marked(self.instance, everything)}
        if spare_exit_command and self.exit and self.exit not in self.statuses:
            for process in processes.below([self.exit], everything):
                found.pop(process.pid, None)
            found.pop(self.exit, None)
        return list(found.values())

    def gone(self) -> bool:
        """Return whether nothing is left: no child, so no descendant, and nobody who carries the mark."""
        self.reap()
        return self.childless and not processes.marked(self.instance, processes.table())

    def record_status(self, phase: str) -> None:
        """Write down where the instance stands; on a full disk the instance goes on without it."""
        try:
            records.write(self.folder, records.STATUS, {"phase": phase, "at": time.time()})
        except OSError as error:
            note(f"status not written: {reason(error)}")

    def record_exit(self, ordered: bool, detail: str = "") -> None:
        """Write the exit record, the last thing a keeper does; on a full disk it waits for room."""
        code, signal_number = split(self.statuses[self.main]) if self.main in self.statuses else (None, None)
        if ordered and not self.started_at:
            detail = records.STOPPED_EARLY
        record = records.exit_record(
            detail=detail,
            by_itself=not ordered,
            exit_code=code,
            exit_signal=signal_number,
            started_at=self.started_at,
        )
        while os.path.isdir(self.folder):
            try:
                records.write(self.folder, records.EXIT, record)
                return
            except OSError as error:
                note(f"exit record not written: {reason(error)}")
                time.sleep(1)


def note(sentence: str) -> None:
    """Say something to whoever looks for a fault; nobody may be able to listen."""
    with contextlib.suppress(OSError):
        print(sentence, file=sys.stderr, flush=True)


def split(status: int) -> "tuple[int | None, int | None]":
    """Return a wait status as (exit code, None) or (None, signal)."""
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (None, -code)


def reason(error: Exception) -> str:
    """Return what an error says, without Python's dressing."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def make_folders(root: str, folders: "list[str]") -> None:
    """Make `folders` below the storage `root`, which must be there: a missing one is a mount that failed."""
    if not os.path.isdir(root):
        raise CannotStart(f"The storage {root} is not there.")
    for folder in folders:
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
        except OSError as error:
            raise CannotStart(f"The folder {folder} could not be made: {reason(error)}.") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise CannotStart(f"The folder {folder} cannot be written.")


def main(folder: str) -> None:
    """Keep the instance in `folder`, unless another keeper does or did."""
    os.closerange(3, 1024)  # what the agent was started with, a lock for one, must not outlive it here
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    me = processes.find(os.getpid())
    if me is None:
        sys.exit("/proc is not mounted")
    if not records.claim(folder, {"boot": processes.boot_id(), "pid": me.pid, "start": me.start}):
        return
    spec = records.read(folder, records.SPEC)
    if spec is None:
        sys.exit("the spec is gone")
    os.unlink(os.path.join(folder, records.SPEC))
    Keeper(folder, spec).keep()
