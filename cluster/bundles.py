"""Packed code: one file for each digest, whoever sent it; written whole or not at all."""

import asyncio
import errno
import fcntl
import hashlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from django.conf import settings

from cluster import logs
from cluster.agent.bundle import Limits, Unsafe, inspect

__all__ = [
    "Limits",
    "NoSpace",
    "TooLarge",
    "Unsafe",
    "WrongDigest",
    "locked",
    "received",
    "remove_others",
    "stream",
]

CHUNK = 256 * 1024
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class TooLarge(Exception):
    """More bytes came than are taken."""


class WrongDigest(Exception):
    """What came is not what its digest says."""


class NoSpace(Exception):
    """The platform's disk is full; nothing was kept."""


def path_of(digest: str) -> Path:
    """Return the file of the packed code with this SHA-256, in hexadecimal."""
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest[:80]!r} is no digest")
    return Path(settings.CODE_DIR) / digest[:2] / f"{digest}.tar.gz"


def limits() -> Limits:
    """Return how much packed code may hold once it is unpacked."""
    return Limits(files=settings.CODE_FILES, bytes=settings.CODE_UNPACKED_MIB * 2**20)


@dataclass(frozen=True, slots=True)
class Received:
    """Packed code that came whole and was found good; it is kept only once somebody says so."""

    draft: Path
    path: Path
    size: int  # bytes

    def keep(self) -> None:
        """Put it in place, of what is there already too: they are the same bytes."""
        self.draft.replace(self.path)


@contextmanager
def received(digest: str, read: Callable[[int], bytes], most: int) -> Iterator[Received]:
    """Give what `read` gives, at most `most` bytes, as the code `digest`; what is not kept then is gone behind it.

    Raises TooLarge, WrongDigest, Unsafe or NoSpace, and then nothing is kept.
    """
    path = path_of(digest)
    draft = Path(settings.CODE_DIR) / f"{uuid4().hex}.new"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        size = _write(draft, digest, read, most)
        inspect(str(draft), limits())
        yield Received(draft, path, size)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise NoSpace from error
        raise
    finally:
        draft.unlink(missing_ok=True)


def _write(draft: Path, digest: str, read: Callable[[int], bytes], most: int) -> int:
    found, size = hashlib.sha256(), 0
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while part := read(CHUNK):
            size += len(part)
            if size > most:
                raise TooLarge
            if not logs.has_room(draft.parent):
                raise NoSpace
            found.update(part)
            file.write(part)
        if found.hexdigest() != digest:
            raise WrongDigest
        file.flush()
        os.fsync(file.fileno())
    return size


@contextmanager
def locked() -> Iterator[None]:
    """Keep others from removing packed code, or from trusting that it is there, meanwhile."""
    folder = Path(settings.CODE_DIR)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def remove_others(digests: Iterable[str], before: float) -> int:
    """Remove all packed code but `digests`, and drafts left over since before `before`; return how many files.

    To be called while it is locked. `before` in seconds since the epoch.
    """
    kept = {path_of(digest) for digest in digests}
    removed = 0
    for path in Path(settings.CODE_DIR).rglob("*"):
        if path.suffix not in {".gz", ".new"} or path in kept:
            continue
        with suppress(FileNotFoundError):  # a draft that has just been finished
            if path.stat().st_mtime < before:
                path.unlink()
                removed += 1
    return removed


async def stream(path: Path) -> AsyncIterator[bytes]:
    """Yield the bytes of a file, a chunk at a time."""
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while part := await asyncio.to_thread(file.read, CHUNK):
            yield part
    finally:
        file.close()
