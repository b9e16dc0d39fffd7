"""Wait for a task, and show its log as it is written."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.client.answers import LogPart, TaskDetail
from jobs.client.command.screen import err
from jobs.client.errors import Refused, Unreachable
from jobs.client.platform import OVER, Taiji

LOOK_S = 1.0  # between two looks where the platform is away, or holds no call
# That it is asked to hold one: a log tells of no state, so that is looked at in between.
HELD_S, LOG_HELD_S = 25, 5


def wait(platform: Taiji, task_id: int) -> TaskDetail:
    """Return the task once it is over; each state it comes to is told on stderr."""
    told, after = "", 0
    while True:
        task = _look(platform, task_id)
        if task is not None:
            told = _tell(task, told)
            if task["state"] in OVER:
                return task
        after = _event(platform, task_id, after)


def follow(platform: Taiji, task_id: int, *, rank: int = 0) -> TaskDetail:
    """Write the log of each attempt to stdout, from its beginning, until the task is over; return the task."""
    told, number, offset, after = "", 0, 0, 0
    while True:
        task = _look(platform, task_id)
        running = False
        if task is not None:
            over = task["state"] in OVER
            told = told if over else _tell(task, told)
            for attempt in task["attempts"]:
                if attempt["attempt"] > number:
                    number, offset = attempt["attempt"], 0
                if attempt["attempt"] == number:
                    offset = _write(platform, task_id, number, rank, offset)
                    running = attempt["ended_at"] is None and attempt["running_at"] is not None
            if over:
                _tell(task, told)  # after the last line of the log
                return task
        if running:
            with _no_faster_than(LOOK_S):
                offset = _write(platform, task_id, number, rank, offset, LOG_HELD_S)
        else:
            after = _event(platform, task_id, after)


@contextmanager
def _no_faster_than(seconds: float) -> Iterator[None]:
    """Let the same not be asked again at once, however fast it was answered."""
    until = time.monotonic() + seconds
    yield
    time.sleep(max(0.0, until - time.monotonic()))


def _event(platform: Taiji, task_id: int, after: int) -> int:
    """Wait until something happened to the task behind the event `after`; return the last one."""
    with _no_faster_than(LOOK_S if after else 0.0):
        try:
            return platform.events(task_id, after=after, wait_s=HELD_S if after else 0)["last"]
        except Unreachable:
            time.sleep(LOOK_S)
            return after


def _write(platform: Taiji, task_id: int, attempt: int, rank: int, offset: int, wait_s: int = 0) -> int:
    """Write what came since `offset`, or comes within `wait_s`, and return where the log ends now."""
    try:
        part: LogPart = platform.log(task_id, attempt=attempt, rank=rank, offset=offset, wait_s=wait_s)
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
        reason = ": " + "\n[taiji] ".join(filter(None, (last["message"], last["advice"])))
    now = f"{task['state']}{reason}"
    if now != told:
        err.print(f"[taiji] {now}", markup=False, style="dim")
    return now
