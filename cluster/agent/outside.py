"""Which processes on the cards are no task's: a person's at the machine, or another scheduler's."""

import pwd
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from cluster.agent import processes
from cluster.agent.processes import MARK, Process

DOUBT_S = 0.2  # between two looks at what seems to be from outside: it may just be changing its parent
SERVERS = ("nvidia-cuda-mps",)  # how the names of MPS's own processes begin: they compute for others
ENGINES = ("docker", "libpod", "containerd", "crio", "kubepods")  # in the names of containers' control groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """What runs on this host for the platform."""

    instances: frozenset[str] = frozenset()
    keepers: frozenset[int] = field(default_factory=frozenset)  # pids


def strangers(pids: Collection[int], ours: Callable[[], Ours]) -> dict[int, str]:
    """Return those of `pids` that are from outside, each with who it is; one that has ended is nobody's.

    `ours` is asked after the pids were seen, so that what was started in between is known.
    """
    found = _strange(pids, ours()) if pids else []
    if not found:
        return {}
    time.sleep(DOUBT_S)
    return {pid: _who(pid) for pid in _strange(found, ours())}


def _strange(pids: Collection[int], ours: Ours) -> list[int]:
    everything = processes.table()
    return [
        pid for pid in sorted(pids) if (one := everything.get(pid)) and _is_strange(one, everything, ours)
    ]


def _is_strange(process: Process, everything: dict[int, Process], ours: Ours) -> bool:
    if process.dead or _name(process.pid).startswith(SERVERS):
        return False
    line = _line(process, everything)
    if any(one.pid in ours.keepers or one.session in ours.keepers for one in line):
        return False
    unread = False
    for one in line:
        mark = _mark(one.pid)
        if mark in ours.instances:
            return False
        unread |= mark is None
    # Of another user's container nobody but root can know whose it is: while one may be ours, it counts as ours.
    return not (unread and ours.instances and _is_in_container(process.pid))


def _line(process: Process, everything: dict[int, Process]) -> list[Process]:
    """Return a process and all it descends from, but for the first process of the host."""
    found = [process]
    while (parent := everything.get(found[-1].parent)) and parent.pid > 1 and parent not in found:
        found.append(parent)
    return found


def _mark(pid: int) -> str | None:
    """Return the instance that a process says it is of, blank for none, None where that may not be read."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except PermissionError:
        return None
    except OSError:
        return ""
    name = f"{MARK}=".encode()
    return next((one[len(name) :].decode(errors="replace") for one in variables if one.startswith(name)), "")


def _is_in_container(pid: int) -> bool:
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    except OSError:
        return False
    return any(engine in groups for engine in ENGINES)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _who(pid: int) -> str:
    try:
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return f"pid {pid}"
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return f"{_name(pid)} (pid {pid}) of {user}"
