"""Wait for a task, and show its log as it is written."""

import sys
import time

from jobs.client.answers import LogPart, TaskDetail
from jobs.client.command.screen import err
from jobs.client.errors import Refused, Unreachable
from jobs.client.platform import OVER, Taiji

LOOK_S = 1.0  # between two looks


def wait(platform: Taiji, task_id: int) -> TaskDetail:
    """Return the task once it is over; each state it comes to is told on stderr."""
    told = ""
    while True:
        task = _look(platform, task_id)
        if task is not None:
            told = _tell(task, told)
            if task["state"] in OVER:
                return task
        time.sleep(LOOK_S)


def follow(platform: Taiji, task_id: int, *, rank: int = 0) -> TaskDetail:
    """Write the log of each attempt to stdout, from its beginning, until the task is over; return the task."""
    told, number, offset = "", 0, 0
    while True:
        task = _look(platform, task_id)
        if task is not None:
            over = task["state"] in OVER
            told = told if over else _tell(task, told)
            for attempt in task["attempts"]:
                if attempt["attempt"] > number:
                    number, offset = attempt["attempt"], 0
                if attempt["attempt"] == number:
                    offset = _write(platform, task_id, number, rank, offset)
            if over:
                _tell(task, told)  # after the last line of the log
                return task
        time.sleep(LOOK_S)


def _write(platform: Taiji, task_id: int, attempt: int, rank: int, offset: int) -> int:
    """Write what came since `offset`, and return where the log ends now."""
    try:
        part: LogPart = platform.log(task_id, attempt=attempt, rank=rank, offset=offset)
    except Unreachable:
        return offset  # asked for again at the next look
    except Refused as refused:
        if refused.status in (404, 410):  # nothing written yet, or removed because it is old
            return offset
        raise
    sys.stdout.buffer.write(part.data)
    sys.stdout.buffer.flush()
    return offset + len(part.data)


def _look(platform: Taiji, task_id: int) -> TaskDetail | None:
    """Return the task; None while the platform gives no answer, which is waited for."""
    try:
        return platform.task(task_id)
    except Unreachable:
        return None


def _tell(task: TaskDetail, told: str) -> str:
    """Tell the state, and why the task waits, where that is new; return what was told."""
    reason = f": {task['reason']['message']}" if task["reason"] else ""
    if task["state"] in OVER and task["attempts"]:
        last = task["attempts"][-1]
        reason = ": " + " ".join(filter(None, (last["message"], last["advice"])))
    now = f"{task['state']}{reason}"
    if now != told:
        err.print(f"[taiji] {now}", markup=False, style="dim")
    return now
