"""The control group of one instance of plain processes: what they may use together, and which they all are."""

import errno
import os
import time
from typing import TYPE_CHECKING

from cluster.agent import processes
from cluster.agent.workload import note, reason

if TYPE_CHECKING:  # as in records.py
    from typing import Any

CONTROLLERS = ("memory", "pids", "cpu")
CPU_PERIOD_US = 100_000  # in which a limit of processors is counted …
CPU_LEAST_US = 1_000  # … and the least that the kernel takes of it
REMOVE_S = 2.0  # the kernel lets a group go a moment after the last of its processes
MEMBERS, KILL = "cgroup.procs", "cgroup.kill"


def cpu_quota_us(cpus: float) -> int:
    """Return how long processors may be used in each period; 0: no limit."""
    return max(int(cpus * CPU_PERIOD_US), CPU_LEAST_US) if cpus else 0


def settings(controller: str, limits: "dict[str, Any]") -> "list[tuple[str, str]]":
    """Return (file, what to write) of one controller's limits; a limit of 0 is none.

    Of both versions of control groups, in the order of writing: a group has the files of one, and perhaps not all.
    """
    memory = str(int(limits.get("memory_mib") or 0) * 2**20)
    quota = cpu_quota_us(float(limits.get("cpus") or 0))
    pids = str(int(limits.get("pids") or 0))
    if controller == "memory" and memory != "0":
        # Swap counts too, else a task would be slowed down by it instead of being told.
        one = [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]
        return [*one, ("memory.max", memory), ("memory.swap.max", "0")]
    if controller == "cpu" and quota:
        one = [("cpu.cfs_period_us", str(CPU_PERIOD_US)), ("cpu.cfs_quota_us", str(quota))]
        return [*one, ("cpu.max", f"{quota} {CPU_PERIOD_US}")]
    return [("pids.max", pids)] if controller == "pids" and pids != "0" else []


class Group:
    """One control group: a folder in each hierarchy of version 1, or one folder of version 2.

    It holds the command, the exit command and whatever they start, in whatever session: the kernel puts a child
    where its parent is. The keeper stays outside.
    """

    def __init__(self, parents: "dict[str, str]", instance: str) -> None:
        """See the group of `instance` below `parents`, controller → folder; with none it holds nobody."""
        self._by_controller = {name: os.path.join(parent, instance) for name, parent in parents.items()}
        self.folders = list(dict.fromkeys(self._by_controller.values()))

    def make(self, limits: "dict[str, Any]") -> None:
        """Make the group with these limits (memory_mib, cpus, pids; 0: none); raises OSError."""
        for folder in self.folders:
            os.makedirs(folder, exist_ok=True)
        for controller, folder in self._by_controller.items():
            wanted = settings(controller, limits)
            there = [(name, value) for name, value in wanted if os.path.exists(os.path.join(folder, name))]
            if wanted and not there:
                raise FileNotFoundError(errno.ENOENT, f"{folder} has none of the files of {controller}")
            for name, value in there:
                write(os.path.join(folder, name), value)

    def join(self) -> None:
        """Go into the group; raises OSError."""
        for folder in self.folders:
            write(os.path.join(folder, MEMBERS), "0")

    def members(self) -> "set[int]":
        """Return the pids of all that live in the group, and in groups that they made below it."""
        return {pid for folder in self.folders for each in _below(folder) for pid in _pids(each)}

    def processes(self) -> "list[processes.Process]":
        """Return those that live in the group."""
        found = (processes.find(pid) for pid in self.members())
        return [process for process in found if process and not process.dead]

    def seal(self) -> None:
        """Let nobody in the group fork any more, and KILL all where the kernel does that at once."""
        for folder in self.folders:
            for name, value in (("pids.max", "0"), (KILL, "1")):
                path = os.path.join(folder, name)
                try:
                    if os.path.exists(path):
                        write(path, value)
                except OSError as error:
                    note(f"{path} not written: {reason(error)}")

    def out_of_memory(self) -> "int | None":
        """Return how many processes the kernel has ended because memory ran out; None where it does not say."""
        folder = self._by_controller.get("memory")
        if folder is None:  # a bare name would be a file of the task's, in the work folder
            return None
        for name in ("memory.events", "memory.oom_control"):
            try:
                with open(os.path.join(folder, name)) as file:
                    counts = [line.split()[1] for line in file if line.startswith("oom_kill ")]
            except OSError:
                continue
            if counts:
                return int(counts[0])
        return None

    def remove(self) -> bool:
        """Remove the group, which has to be empty; return whether nothing of it is left."""
        until = time.monotonic() + REMOVE_S
        while left := [folder for folder in self.folders if not _removed(folder)]:
            if time.monotonic() >= until:
                note(f"{left[0]} is not removed")
                return False
            time.sleep(0.02)
        return True


def _below(folder: str) -> "list[str]":
    """Return a group's folder and those below it, the deepest first."""
    return [path for path, _folders, _files in os.walk(folder, topdown=False)]


def _pids(folder: str) -> "list[int]":
    try:
        with open(os.path.join(folder, MEMBERS)) as file:
            return [int(line) for line in file]
    except OSError:  # it is gone, or has become a group of threads
        return []


def _removed(folder: str) -> bool:
    for path in _below(folder):
        try:
            os.rmdir(path)
        except OSError:
            continue
    return not os.path.isdir(folder)


def write(path: str, value: str) -> None:
    """Write a setting of the kernel's, whole in one call; raises OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, value.encode())
    finally:
        os.close(handle)
