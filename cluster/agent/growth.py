"""What a program brings into folders: measured while it works, so that it never fills the host's disk."""

import contextlib
import os
import time

from cluster.agent.bundle import Limits
from cluster.agent.disk import LEAST

LOOK_S = 0.25  # between two measurements …
REST = 4  # … and as many times longer than the last one took


class TooMuch(Exception):
    """More came than the limits allow."""


class Full(Exception):
    """The disk is as good as full."""


class Growth:
    """What lies in some folders, against their limits."""

    def __init__(self, limits: Limits, *folders: str) -> None:
        """Allow so many files, folders and links, and so many bytes, in all `folders` together."""
        self.limits = limits
        self._folders = folders
        self._next = 0.0

    def look(self) -> None:
        """Measure if it is time to; raises TooMuch or Full."""
        began = time.monotonic()
        if began >= self._next:
            self.measure()
            ended = time.monotonic()
            self._next = ended + max(LOOK_S, REST * (ended - began))

    def measure(self) -> None:
        """Raise TooMuch or Full where it is time to stop."""
        disk = os.statvfs(self._folders[0])
        if disk.f_bavail * disk.f_frsize < LEAST:
            raise Full
        files = size = 0
        folders = [*self._folders]
        while folders:
            # What is written goes by other names for a while, and is gone between two looks.
            with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    files += 1
                    size += _size(entry)
                    if files > self.limits.files or size > self.limits.bytes:
                        raise TooMuch
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)


def _size(entry: "os.DirEntry[str]") -> int:
    if entry.is_dir(follow_symlinks=False):
        return 0
    with contextlib.suppress(FileNotFoundError):
        return entry.stat(follow_symlinks=False).st_size
    return 0
