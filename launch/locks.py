"""Locks on files, which the kernel lets go when their holder ends, however it ends."""

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path


def take(path: Path, *, wait_s: float = 0.0) -> int | None:
    """Take the lock of `path` for this process alone and return its descriptor, or None after `wait_s`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(0.05)


def is_free(path: Path, *, wait_s: float = 0.0) -> bool:
    """Say whether nobody holds the lock of `path`, waiting up to `wait_s` for that."""
    descriptor = take(path, wait_s=wait_s)
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


def holders(path: Path) -> list[int]:
    """Return the ids of the processes that took the lock of `path` and hold it still.

    A lock outlives its taker where a child inherited the descriptor; that child is not in the list.
    """
    try:
        found = path.stat()
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # A line reads `1: FLOCK ADVISORY READ 1234 fe:01:5678 0 EOF`; a waiter's has an arrow behind the number.
    taken = (line.split() for line in lines if " -> " not in line)
    takers = {int(words[4]) for words in taken if words[5] == place}
    return sorted(pid for pid in takers if _has_open(pid, found))


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Say whether the process has the file open: the id may have gone to another process since."""
    try:
        return any(_is_same(entry, file) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:
        return True
    except OSError:
        return False


def _is_same(entry: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(entry.stat(), file)
    except OSError:
        return False


def end_holders(path: Path, *, wait_s: float) -> bool:
    """Wait for the holders of a lock to end, then kill those that do not; say whether none is left."""
    if _is_let_go(path, wait_s):
        return True
    for pid in holders(path):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return _is_let_go(path, 3.0)


def _is_let_go(path: Path, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while holders(path):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True
