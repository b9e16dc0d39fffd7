"""Turn this process into a program of the group, which ends with its parent and holds the group's lock."""

import ctypes
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
RETRY_S = 2.0  # a program that ends at once is started again no faster than this, but for ever


def main(run: Path, lock: Path, name: str) -> None:
    """Replace this process by the program `name` of the group described in the folder `run`."""
    end_with_parent()
    program = json.loads((run / "members.json").read_text())[name]
    _wait_for_turn(run / f"{name}.started")
    _hold(lock)
    for variable in program["unset"]:
        os.environ.pop(variable, None)
    os.environ.update(program["env"])
    os.umask(program["umask"])
    os.execv(program["argv"][0], program["argv"])


def end_with_parent() -> None:
    """Get TERM when the parent ends, also by KILL: else the next start would find this process doubled."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)  # it ended before the kernel knew


def _wait_for_turn(mark: Path) -> None:
    ago = time.time() - mark.stat().st_mtime if mark.exists() else RETRY_S
    if 0 <= ago < RETRY_S:
        time.sleep(RETRY_S - ago)
    mark.touch()


def _hold(path: Path) -> None:
    """Share the lock of `path` until the program ends: who can take it alone knows that all have ended."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.set_inheritable(descriptor, True)


if __name__ == "__main__":
    main(Path(os.environ["TAIJI_RUN"]), Path(os.environ["TAIJI_MEMBERS_LOCK"]), sys.argv[1])
