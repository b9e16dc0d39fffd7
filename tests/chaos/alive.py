"""The processes of tasks that are alive at one moment, as the kernel lists them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cluster.agent import processes

_TASK = re.compile(r"task-(\d+)$")
_HOST = re.compile(r"/agents/([^/]+)/instances/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """One process of an instance."""

    pid: int
    start: int
    instance: str
    task: int
    rank: int
    host: str
    cards: frozenset[int]


def look(data: Path) -> tuple[Alive, ...]:
    """Return the processes of tasks of the product in `data` that were all alive at one moment of this call.

    Each is looked at twice: those of the first look that are found again at the second lived in between.
    """
    first = [found for process in processes.table().values() if (found := _of(process, str(data)))]
    return tuple(found for found in first if processes.alive(found.pid, found.start))


def _of(process: processes.Process, data: str) -> Alive | None:
    if process.dead:
        return None
    env = _environment(process.pid)
    instance, folder = env.get(processes.MARK), env.get("TAIJI_TASK_DIR", "")
    if not instance or not folder.startswith(data):
        return None
    task, host = _TASK.search(folder), _HOST.search(env.get("TAIJI_HOSTFILE", ""))
    if task is None or host is None:
        raise LookupError(f"process {process.pid} has an environment that no instance should have: {env}")
    return Alive(
        pid=process.pid,
        start=process.start,
        instance=instance,
        task=int(task[1]),
        rank=int(env["RANK"]),
        host=host[1],
        cards=frozenset(_numbers(env["CUDA_VISIBLE_DEVICES"].split(","))),
    )


def _numbers(words: Iterable[str]) -> Iterable[int]:
    return (int(word) for word in words if word)


def _environment(pid: int) -> dict[str, str]:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value for name, found, value in (word.partition("=") for word in words) if found}
