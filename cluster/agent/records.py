"""The records of an instance's folder: whole or absent, and on the disk when written."""

import json
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the keeper starts for every instance, and importing typing's names takes it 5 ms
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

SPEC = "spec.json"  # what the keeper is to do, secrets included; gone once the keeper has read it
CLAIM = "claim.json"  # who may run the instance: made once, never replaced
STATUS = "status.json"
TOLD = "told.json"  # what the agent tells a keeper that asked in its status
EXIT = "exit.json"
LOG = "log"
WORK = "work"
CONTAINER = "container.json"  # which engine was asked for a container, written before it was
GROUPS = "groups.json"  # where the control group of a plain process lies, written before it was made
PRIVATE = "private"  # secrets as files, while something is fetched or mounted with them
KEEPER_LOG = "keeper.log"

RETRY_S = 1.0  # a full disk is tried again so often: what is not written down nobody hears

STOPPED_EARLY = "It was stopped before it started."


def exit_record(
    *,
    detail: str,
    by_itself: bool | None,
    exit_code: int | None = None,
    exit_signal: int | None = None,
    started_at: float | None = None,
    cause: str = "",
) -> "dict[str, Any]":
    """Return what is kept of an instance's end, in protocol.py's words; times in seconds since the epoch."""
    return {
        "exit_code": exit_code,
        "exit_signal": exit_signal,
        "by_itself": by_itself,
        "detail": detail,
        "cause": cause,
        "started_at": started_at,
        "ended_at": time.time(),
    }


def read(folder: str, name: str) -> "dict[str, Any] | None":
    """Return the record `name`, or None where there is none or the host lost power while it was written.

    Raises OSError where nobody can know.
    """
    try:
        record = insist(lambda: _read(folder, name), folder, os.path.join(folder, name))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, ValueError, TypeError):
        return None
    return record if isinstance(record, dict) else None


def _read(folder: str, name: str) -> "Any":
    with open(os.path.join(folder, name), "rb", opener=without_waiting) as file:
        return json.load(file)


def insist(act: "Callable[[], T]", *paths: str) -> "T":
    """Return what `act` does, with `paths` taken back where they may not be used.

    They are ours, but a task of the same user can change what may be done with its own folder and those above it:
    without its records it would never end.
    """
    try:
        return act()
    except PermissionError:
        for path in paths:
            os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)
        return act()


def without_waiting(path: str, flags: int) -> int:
    """Open also a named pipe at once: a task of the same user may have put one there."""
    return os.open(path, flags | os.O_NONBLOCK)


def write(folder: str, name: str, record: "dict[str, Any]") -> None:
    """Put the record `name` in place of an earlier one, at once and durably; only its owner may read it."""
    insist(lambda: _write(folder, name, record), folder)


def _write(folder: str, name: str, record: "dict[str, Any]") -> None:
    draft = _draft(folder, name, record)
    place = os.path.join(folder, name)
    try:
        if os.path.isdir(place):  # made by a task of the same user, whose keeper would never end otherwise
            os.rename(place, f"{draft}.away")
        os.replace(draft, place)
    except OSError:
        os.unlink(draft)
        raise
    _settle(folder)


def claim(folder: str, record: "dict[str, Any]") -> bool:
    """Write the claim unless there is one; return whether this caller is the one who may run the instance.

    A link, not an exclusive open: a claim is never seen half-written, whoever dies when.
    """
    return insist(lambda: _claim(folder, record), folder)


def _claim(folder: str, record: "dict[str, Any]") -> bool:
    draft = _draft(folder, CLAIM, record)
    try:
        os.link(draft, os.path.join(folder, CLAIM))
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    _settle(folder)
    return True


def _draft(folder: str, name: str, record: "dict[str, Any]") -> str:
    # A name that no task can foresee, and stand in the way of.
    draft = os.path.join(folder, f"{name}.{os.urandom(8).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(json.dumps(record).encode())
            file.flush()
            os.fsync(handle)
    except OSError:
        os.unlink(draft)  # on a full disk it is tried again and again
        raise
    return draft


def _settle(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
