"""A workload of plain processes: all that descends from the keeper, which is their subreaper."""

import os
import signal
from typing import TYPE_CHECKING

from cluster.agent import memory, processes, records
from cluster.agent.steps import USUAL, find
from cluster.agent.workload import CannotStart, hand_over, note, reason, split

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable
    from typing import Any

SHELL = "/bin/sh"


class Tree:
    """The processes of one instance."""

    def __init__(self, folder: str, spec: "dict[str, Any]") -> None:
        """Run in `folder`'s work folder what `spec` says."""
        self.folder = folder
        self.instance = os.path.basename(folder)
        self.spec = spec
        self.statuses: dict[int, int] = {}  # how the children ended that were started here, by pid
        self.main: int | None = None
        self.exit: int | None = None
        self.childless = True
        self.told = False  # we told the command to end, so how it ended says nothing of why
        self.memory: memory.Watch | None = None

    def prepare(self, ordered: "Callable[[], bool]") -> None:
        """Need nothing."""

    def bind(self, binds: "list[tuple[str, str]]") -> None:
        """Need nothing: the data is mounted where the task looks for it."""

    def start(self) -> None:
        """Start the command; an idle member has none and only keeps its place."""
        if self.spec["command"] is not None:
            self.memory = memory.Watch()
            self.main = self._spawn(self.spec["command"])

    def ended(self) -> bool:
        """Return whether the start command has ended."""
        self._reap()
        return self.main in self.statuses

    def run_exit_command(self) -> bool:
        """Start the exit command; what it leaves ends with the rest."""
        try:
            self.exit = self._spawn(self.spec["exit_command"])
        except CannotStart as fault:
            note(f"exit command: {fault}")
            return False
        return True

    def exit_command_ended(self) -> bool:
        """Return whether the exit command has ended."""
        self._reap()
        return self.exit in self.statuses

    def terminate(self) -> None:
        """TERM the whole tree but the exit command's part of it."""
        self.told |= self.main not in self.statuses
        for process in self._living(spare_exit_command=True):
            processes.send(process, signal.SIGTERM)

    def kill(self) -> None:
        """KILL the whole tree."""
        processes.kill_all(self._living)

    def gone(self) -> bool:
        """Return whether nothing is left: no child, so no descendant, and nobody who carries the mark."""
        self._reap()
        return self.childless and not processes.marked(self.instance, processes.table())

    def status(self) -> "tuple[int | None, int | None]":
        """Return how the start command ended."""
        return split(self.statuses[self.main]) if self.main in self.statuses else (None, None)

    def clear(self) -> "dict[str, Any]":
        """Have nothing to clear away; say whether the command was ended because memory ran out."""
        found = self.memory.cause(*self.status()) if self.memory and not self.told else ""
        return {"cause": found} if found else {}

    def _spawn(self, command: str) -> int:
        """Start `command` in a process group of its own, its output appended to the log; return its pid."""
        try:
            log = os.open(
                os.path.join(self.folder, records.LOG),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )
            argv = [*self._as_user(), SHELL, "-c", command]
            pid = os.posix_spawn(
                argv[0],
                argv,
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

    def _as_user(self) -> "list[str]":
        """Return what a command is put behind so that it runs as the task's user."""
        user = self.spec.get("user")
        if not user or os.geteuid() != 0:
            return []
        hand_over(os.path.join(self.folder, records.LOG), user)
        uid, gid = user.split(":")
        options = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"]
        return [find("setpriv", "") or "setpriv", *options, "--"]

    def _reap(self) -> None:
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

    def _living(self, spare_exit_command: bool = False) -> "list[processes.Process]":
        """Return what lives of the instance; `spare_exit_command` leaves one still at work out."""
        everything = processes.table()
        found = {process.pid: process for process in processes.below([os.getpid()], everything)}
        found |= {process.pid: process for process in processes.marked(self.instance, everything)}
        if spare_exit_command and self.exit and self.exit not in self.statuses:
            for process in processes.below([self.exit], everything):
                found.pop(process.pid, None)
            found.pop(self.exit, None)
        return list(found.values())
