"""The exit codes of the command: they are an interface, and never change their meaning."""

from jobs.client.answers import Attempt, TaskDetail
from jobs.client.errors import CallFailed, Refused

USAGE = 2
DATA, NOT_THERE, AWAY, LATER, NOT_ALLOWED = 65, 66, 69, 75, 77  # as sysexits.h has them
STOPPED, EVICTED, BROKEN_OFF = 143, 144, 130
WORDS = (
    "0 all is well; 1 the task failed and gave no code of its own; "
    f"{USAGE} the command line is wrong; {DATA} the platform refuses what was asked; "
    f"{NOT_THERE} there is no such file or task; {AWAY} the platform gives no answer; "
    f"{LATER} not now: its state or a limit forbids it; {NOT_ALLOWED} not logged in, or not allowed; "
    f"{BROKEN_OFF} Ctrl-C. With --wait: the exit code of the task's command, 128 and the signal that ended it, "
    f"{STOPPED} it was stopped, {EVICTED} it was evicted for good."
)
_STATUS = {
    400: DATA,
    413: DATA,
    401: NOT_ALLOWED,
    403: NOT_ALLOWED,
    404: NOT_THERE,
    409: LATER,
    429: LATER,
    507: LATER,
}


def of_failure(error: CallFailed) -> int:
    """Return the code for a call that came to nothing."""
    return _STATUS.get(error.status, AWAY) if isinstance(error, Refused) else AWAY


def of_task(task: TaskDetail) -> int:
    """Return the code for a task that is over."""
    if task["state"] == "succeeded":
        return 0
    if task["state"] in ("stopped", "evicted"):
        return STOPPED if task["state"] == "stopped" else EVICTED
    attempt: Attempt | None = task["attempts"][-1] if task["attempts"] else None
    for member in attempt["hosts"] if attempt and attempt["code"] in ("exit_code", "exit_signal") else ():
        if member["exit_signal"]:
            return 128 + member["exit_signal"]
        if member["exit_code"]:
            return member["exit_code"]
    return 1
