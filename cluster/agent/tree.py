"""A workload of plain processes: all that descends from the keeper, which is their subreaper."""

import os
import signal
from typing import TYPE_CHECKING

from cluster.agent import memory, processes, records
from cluster.agent.cgroups import Group
from cluster.agent.spawn import spawn
from cluster.agent.workload import SHELL, CannotStart, hand_over, note, open_log, reason, split

if TYPE_CHECKING:  # as in records.py
    from collections.abc import Callable
    from typing import Any


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
        self.killed = False  # once already
        self.told = False  # we told the command to end, so how it ended says nothing of why
        self.memory: memory.Watch | None = None
        self.group = Group(spec.get("groups") or {}, self.instance)

    def prepare(self, ordered: "Callable[[], bool]") -> None:
        """Need nothing."""

    def bind(self, binds: "list[tuple[str, str]]") -> None:
        """Need nothing: the data is mounted where the task looks for it."""

    def start(self) -> None:
        """Start the command; an idle member has none and only keeps its place."""
        self._make_group()
        if self.spec["command"] is not None:
            self.memory = memory.Watch()
            self.main = self._spawn(self.spec["command"])

    def _make_group(self) -> None:
        """Make the control group, where this host has any; without one it runs all the same, and without limits."""
        if not self.group.folders:
            return
        try:
            records.write(self.folder, records.GROUPS, self.spec["groups"])
        except OSError as error:
            note(f"where its control group lies is not written down: {reason(error)}")
        try:
            self.group.make(self.spec.get("limits") or {})
        except OSError as error:
            note(f"it runs without a control group: {reason(error)}")
            self.group.remove()
            self.group = Group({}, self.instance)

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
        """KILL the whole tree; in a group of its own nobody gets away by forking faster than others look.

        Only where once was not enough: a shell that may not fork any more would end by itself, in its own way.
        """
        if self.killed:
            self.group.seal()
        self.killed = True
        processes.kill_all(self._living)

    def gone(self) -> bool:
        """Return whether nothing is left: no child, so no descendant, nobody in the group or with the mark."""
        self._reap()
        if not self.childless or self.group.members():
            return False
        return not processes.marked(self.instance, processes.table())

    def status(self) -> "tuple[int | None, int | None]":
        """Return how the start command ended."""
        return split(self.statuses[self.main]) if self.main in self.statuses else (None, None)

    def clear(self) -> "dict[str, Any]":
        """Remove the group; say whether the command was ended because memory ran out."""
        found = self._cause()
        self.group.remove()
        return {"cause": found} if found else {}

    def _cause(self) -> str:
        if self.memory is None or self.told:
            return ""
        kills = self.group.out_of_memory()
        if kills is None:
            return self.memory.cause(*self.status())
        # Whoever was killed in its own group was one of it, and what it did then was no success.
        return "oom" if kills and self.status() != (0, None) else ""

    def _spawn(self, command: str) -> int:
        """Start `command` in a process group of its own, its output appended to the log; return its pid."""
        try:
            log = open_log(self.folder)
            user = self.spec.get("user") if os.geteuid() == 0 else ""
            hand_over(os.path.join(self.folder, records.LOG), user or "")
        except OSError as error:
            raise CannotStart(f"The log could not be opened: {reason(error)}.") from error
        try:
            argv = [SHELL, "-c", command]
            pid = spawn(argv, self.spec["env"], output=log, user=user or "", group=self.group)
        finally:
            os.close(log)
        self.childless = False
        return pid

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
        found |= {process.pid: process for process in self.group.processes()}
        if spare_exit_command and self.exit and self.exit not in self.statuses:
            for process in processes.below([self.exit], everything):
                found.pop(process.pid, None)
            found.pop(self.exit, None)
        return list(found.values())
