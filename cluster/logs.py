"""What instances print: one file per instance, appended by its agent, read by everybody else."""

import asyncio
import errno
import fcntl
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from django.conf import settings

CHUNK = 256 * 1024  # of a stream
PART_AT_MOST = 1024 * 1024  # of one append
LOG_AT_MOST = 2 * 1024**3  # of one instance
FOUND_AT_MOST = 100  # lines of one search
SCAN_AT_MOST = 64 * 1024**2  # bytes that one search reads
EXCERPT = 200  # bytes shown before and behind what was found
LOOK_BACK = 64 * 1024  # for the beginning of a line
# Bytes of the disk that logs leave alone: the database may be on it, and without room it could note no end.
SPARED = 64 * 1024**2


class Gap(Exception):
    """Bytes in between are missing; `end` is where the log ends."""

    def __init__(self, end: int) -> None:
        """Keep the end."""
        super().__init__(f"the log ends at {end}")
        self.end = end


class Full(Exception):
    """The log of this instance takes no more; `end` is where it ends."""

    def __init__(self, end: int) -> None:
        """Keep the end."""
        super().__init__(f"the log is full at {end}")
        self.end = end


class NoSpace(Exception):
    """The platform's disk is full; nothing was written."""


def path_of(instance: uuid.UUID) -> Path:
    """Return the file of this instance's log."""
    return Path(settings.TASK_LOG_DIR) / instance.hex[:2] / f"{instance}.log"


def has_room(folder: Path | None = None) -> bool:
    """Return whether `folder`, by default that of logs, may grow: where its disk is nearly full, none does."""
    folder = folder or Path(settings.TASK_LOG_DIR)
    while not folder.exists():
        folder = folder.parent
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize >= SPARED


def append(instance: uuid.UUID, offset: int, data: bytes) -> int:
    """Write `data`, which begins at `offset` of the log, and return where the log ends then.

    What is there already is not written again. Raises Gap, Full or NoSpace, and then nothing was written.
    """
    path = path_of(instance)
    if data and not has_room():
        raise NoSpace
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _no_space(error) from error
    try:
        # Two agents' calls for one file, each in its own thread or process, go one after the other.
        fcntl.flock(file, fcntl.LOCK_EX)
        return _append(file, offset, data)
    finally:
        os.close(file)


def _append(file: int, offset: int, data: bytes) -> int:
    end = os.fstat(file).st_size
    if offset > end:
        raise Gap(end)
    new = memoryview(data)[end - offset :]
    if end + len(new) > LOG_AT_MOST:
        raise Full(end)
    try:
        done = 0
        while done < len(new):
            done += os.pwrite(file, new[done:], end + done)
    except OSError as error:
        os.ftruncate(file, end)  # half a part would be right too, but "nothing" is easier to tell
        raise _no_space(error) from error
    return end + done


def _no_space(error: OSError) -> Exception:
    return NoSpace() if error.errno in {errno.ENOSPC, errno.EDQUOT} else error


def end_of(instance: uuid.UUID) -> int:
    """Return where the log ends: its length in bytes, 0 where there is none yet."""
    try:
        return path_of(instance).stat().st_size
    except FileNotFoundError:
        return 0


def read(instance: uuid.UUID, offset: int, limit: int) -> tuple[bytes, int]:
    """Return at most `limit` bytes from `offset` on, and where the log ends."""
    try:
        with path_of(instance).open("rb") as file:
            end = os.fstat(file.fileno()).st_size
            file.seek(min(offset, end))
            return file.read(min(limit, max(0, end - offset))), end
    except FileNotFoundError:
        return b"", 0


def find(
    instance: uuid.UUID, words: bytes, offset: int, *, most: int = FOUND_AT_MOST, scan: int = SCAN_AT_MOST
) -> tuple[list[tuple[int, bytes]], int | None]:
    """Return the lines from `offset` on that hold `words`, and where to search on; None: all was searched.

    A line is given as its first byte's place and what stands around the words. ASCII letters match in
    either case. At most `most` lines are found and `scan` bytes read: a search costs little, whatever the log.
    """
    wanted, found = words.lower(), list[tuple[int, bytes]]()
    until = offset + scan
    while offset < until:
        data, end = read(instance, offset, CHUNK + len(wanted) + EXCERPT)
        own = min(CHUNK, len(data))  # what begins behind this is the next round's
        skip_to = 0
        for at in _places(data.lower(), wanted):
            if at >= own:
                break
            if at < skip_to:
                continue  # once a line is enough
            if len(found) == most:
                return found, offset + at
            skip_to = _line_end(data, at)
            begin = data.rfind(b"\n", 0, at) + 1
            first = offset + begin if begin else _line_start(instance, offset)
            found.append((first, data[max(begin, at - EXCERPT) : min(skip_to, at + len(wanted) + EXCERPT)]))
        offset = max(offset + own, min(offset + skip_to, end))
        if offset >= end or not data:
            return found, None
    return found, offset


def _places(data: bytes, wanted: bytes) -> Iterator[int]:
    at = data.find(wanted)
    while at >= 0:
        yield at
        at = data.find(wanted, at + 1)


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _line_start(instance: uuid.UUID, offset: int) -> int:
    """Return where the line begins that `offset` lies in; of a very long one, a place in it."""
    before, _end = read(instance, max(0, offset - LOOK_BACK), min(offset, LOOK_BACK))
    at = before.rfind(b"\n")
    return offset - len(before) + at + 1 if at >= 0 else max(0, offset - LOOK_BACK)


async def stream(instance: uuid.UUID, offset: int = 0, until: int | None = None) -> AsyncIterator[bytes]:
    """Yield the log from `offset` up to `until` (None: its end when it is reached), a chunk at a time."""
    while until is None or offset < until:
        limit = CHUNK if until is None else min(CHUNK, until - offset)
        data, _ = await asyncio.to_thread(read, instance, offset, limit)
        if not data:
            return
        yield data
        offset += len(data)
