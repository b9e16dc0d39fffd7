"""Keep one instance: start its command, end its whole tree, and leave an exit record when nothing is left.

A keeper outlives the agent that started it and needs none. It is a child subreaper, so whatever a plain
command starts, in whatever session or by whatever double fork, stays its descendant; when the kernel says
that it has no children any more, nothing of the instance is left. What it keeps is a Workload: that, or a
container.
"""

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from cluster.agent import processes, records
from cluster.agent.spawn import may_write
from cluster.agent.tree import Tree
from cluster.agent.workload import CannotStart, hand_over, note, reason

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable
    from typing import Any

    from cluster.agent.prepare import Preparation
    from cluster.agent.workload import Workload

WATCHED = {signal.SIGCHLD, signal.SIGTERM}
GO = signal.SIGUSR1  # the agent's word that the whole gang is ready
LOOK_S = 0.05  # a grandchild's end sends the keeper no signal, so while ending it looks this often


class Keeper:
    """One instance from the claim to the exit record."""

    def __init__(self, folder: str, spec: "dict[str, Any]") -> None:
        """Keep the instance in `folder` as `spec` says."""
        self.folder = folder
        self.spec = spec
        self.workload = workload_of(folder, spec)
        self.preparation: Preparation | None = None
        self.started_at: float | None = None

    def keep(self) -> None:
        """Run the instance to its end."""
        try:
            self.start()
        except CannotStart as fault:
            ordered = end_ordered()  # then that is why, whatever broke off meanwhile
            self.record_exit(ordered, detail=str(fault), cause="" if ordered else fault.cause)
            return
        ordered = self.wait_for_end()
        self.end(ordered)
        self.record_exit(ordered)

    def start(self) -> None:
        """Bring what the command needs, then start it; an order to end that comes before leaves it unstarted."""
        if end_ordered():
            return
        bound = bool(self.spec.get("container"))
        make_folders(self.spec["storage_root"], self.spec["folders"], self.spec.get("user", ""), bound)
        self.make_work_folder()
        self.bring()
        if end_ordered():
            return  # before an engine is asked, which may take a minute to answer
        self.hand_over_work()
        self.workload.prepare(end_ordered)
        if self.spec.get("wait_for_go") and self.spec["command"] is not None:
            self.wait_for_go()
        if end_ordered():
            return
        self.started_at = time.time()
        self.workload.start()

    def bring(self) -> None:
        """Bring code and data where the task has any; the others start without the modules for that."""
        if not self.spec.get("code") and not self.spec.get("data"):
            return
        from cluster.agent.prepare import Preparation

        self.preparation = Preparation(
            self.folder, self.spec, end_ordered, lambda: self.record_status("starting")
        )
        self.preparation.bring()
        self.workload.bind(self.preparation.binds)

    @property
    def facts(self) -> "dict[str, Any]":
        """Return what is known of the instance besides, such as the commit that it runs."""
        return self.preparation.facts if self.preparation else {}

    def make_work_folder(self) -> None:
        """Make the folder where the command starts, and go there."""
        work = os.path.join(self.folder, records.WORK)
        try:
            os.mkdir(work, 0o700)
            os.chdir(work)
        except OSError as error:
            raise CannotStart(f"The work folder could not be made: {error.strerror}.") from error

    def hand_over_work(self) -> None:
        """Let the user that the task runs as get at its folder and write into it."""
        try:
            if self.spec.get("user"):
                os.chmod(self.folder, 0o711)
                hand_over(os.path.join(self.folder, records.WORK), self.spec["user"])
        except (OSError, RecursionError) as error:  # the second: folders in folders without end
            raise CannotStart(f"The work folder could not be handed over: {reason(error)}.") from error

    def wait_for_go(self) -> None:
        """Say that all is prepared, and wait until the whole gang is, or the end is ordered."""
        said, told = False, None
        while told is None:
            said = said or self.record_status("ready")
            told = signal.sigtimedwait({GO, signal.SIGTERM}, records.RETRY_S)
        if told.si_signo == signal.SIGTERM:
            # It stays pending, for those who look whether the end is ordered.
            signal.raise_signal(signal.SIGTERM)

    def wait_for_end(self) -> bool:
        """Say that it runs, sleep until it has ended or the end is ordered, and return whether it was ordered."""
        said = self.started_at is None
        while True:
            said = said or self.record_status("running")
            if self.workload.ended():
                return False
            told = signal.sigwaitinfo(WATCHED) if said else signal.sigtimedwait(WATCHED, records.RETRY_S)
            if told is not None and told.si_signo == signal.SIGTERM:
                return not self.workload.ended()  # one that ended before the order ended by itself

    def end(self, ordered: bool) -> None:
        """End the workload until nothing is left: exit command beside it, TERM, KILL after `grace_s`."""
        if not ordered and self.workload.gone():
            return
        self.record_status("ending")
        grace_s = float(self.spec["grace_s"])
        deadline = time.monotonic() + grace_s
        if ordered and self.spec["exit_command"] and self.started_at and self.workload.run_exit_command():
            self.wait(deadline - min(3.0, grace_s / 10), self.workload.exit_command_ended)
        self.workload.terminate()
        self.wait(deadline, self.workload.gone)
        while not self.workload.gone():
            self.workload.kill()
            self.wait(time.monotonic() + 1.0, self.workload.gone)

    def wait(self, until: float, done: "Callable[[], bool]") -> None:
        """Wait until `done` or the monotonic time `until`; further orders to end change nothing."""
        while not done():
            left = until - time.monotonic()
            if left <= 0:
                return
            signal.sigtimedwait(WATCHED, min(left, LOOK_S))

    def record_status(self, phase: str) -> bool:
        """Write down where the instance stands, and return whether that could be done: a disk may be full."""
        try:
            records.write(self.folder, records.STATUS, {"phase": phase, "at": time.time(), **self.facts})
        except OSError as error:
            note(f"status not written: {reason(error)}")
            return False
        return True

    def record_exit(self, ordered: bool, detail: str = "", cause: str = "") -> None:
        """Write the exit record, the last thing a keeper does; on a full disk it waits for room."""
        code, signal_number = self.workload.status()
        if ordered and not self.started_at:
            detail = records.STOPPED_EARLY
        record = records.exit_record(
            detail=detail,
            by_itself=not ordered,
            exit_code=code,
            exit_signal=signal_number,
            started_at=self.started_at,
            cause=cause,
        )
        record.update(self.workload.clear())
        record.update(self.facts)
        if self.preparation:
            self.preparation.clear()
        while os.path.isdir(self.folder):
            try:
                records.write(self.folder, records.EXIT, record)
                return
            except OSError as error:
                note(f"exit record not written: {reason(error)}")
                time.sleep(records.RETRY_S)


def workload_of(folder: str, spec: "dict[str, Any]") -> "Workload":
    """Return what is kept; plain processes start without the modules for containers."""
    if not spec.get("container"):
        return Tree(folder, spec)
    from cluster.agent.container import Container

    return Container(folder, spec)


def end_ordered() -> bool:
    """Return whether the end was ordered and nobody has waited for that yet."""
    return signal.SIGTERM in signal.sigpending()


def make_folders(root: str, folders: "list[str]", user: str, bound: bool) -> None:
    """Make `folders` for `user` below the storage `root`, which must be there: else a mount failed.

    `bound`: a container gets them, so that nobody has to get through what lies above them.
    """
    if not os.path.isdir(root):
        raise CannotStart(f"The storage {root} is not there.")
    for folder in folders:
        try:
            if not os.path.isdir(folder):
                os.makedirs(folder, 0o700, exist_ok=True)
                hand_over(folder, user)
        except OSError as error:
            raise CannotStart(f"The folder {folder} could not be made: {reason(error)}.") from error
        if not may_write(folder, user, bound):
            raise CannotStart(f"The folder {folder} cannot be written.")


def main(folder: str) -> None:
    """Keep the instance in `folder`, unless another keeper does or did."""
    os.closerange(3, 1024)  # what the agent was started with, a lock for one, must not outlive it here
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED | {GO})
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    processes.adopt_orphans(True)
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
