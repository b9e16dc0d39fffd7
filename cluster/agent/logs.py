"""Send what instances print to the platform, promptly and without ever holding up anything else."""

import contextlib
import logging
import os
import random
import time
from collections.abc import Iterable
from pathlib import Path

from cluster.agent import records
from cluster.agent.link import Away, Link, Refused

log = logging.getLogger(__name__)

BATCH = 2**20  # bytes of one call
CAP = 2**30  # bytes kept of one instance's log
SLACK = 2**24  # a log over its cap is cut on the disk each time it has grown by this much again
GAP_S = 0.2  # between two calls for one log, so that a chatty process costs a few calls a second
RETRY_S = 5.0


class Tail:
    """The log of one instance: what is in it, and how much of it the platform has."""

    def __init__(self, path: Path, cap: int) -> None:
        """Follow the log at `path`, of which `cap` bytes and a mark are kept."""
        self.path = path
        self.sent: int | None = None  # what the platform has; None: not asked yet
        self.refused = False
        self.due_at = 0.0  # monotonic time before which nothing is sent
        self.failures = 0
        self._cap = cap
        self._mark = f"\n[taiji] This log is longer than {cap} bytes: the rest is not kept.\n".encode()
        self._before = 0  # bytes of the log before the file's first one: a process may empty its own log
        self._size = 0

    @property
    def end(self) -> int:
        """How many bytes are to be sent in all, as far as was measured."""
        size = self._before + self._size
        return size if size <= self._cap else self._cap + len(self._mark)

    @property
    def unsent(self) -> bool:
        """Whether the platform lacks something that it did not refuse."""
        return not self.refused and self.end > (self.sent or 0)

    def measure(self) -> bool:
        """Look how long the log is; return whether it has grown."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0  # not there yet, or removed by the process that writes it: nothing will ever be to read
        except OSError:
            return False  # nobody can know now
        if size < self._size:  # `> /dev/stdout` empties the file: what was sent stays sent
            self._before, self._size = self.sent or 0, 0
        grown = size > self._size
        self._size = size
        if self._before + size > self._cap + SLACK:
            with contextlib.suppress(OSError):  # it may be gone, or be no file, since it was measured
                self._cut()
        return grown

    def resume(self, sent: int) -> None:
        """Go on behind what the platform has; where that is more than is here, the log was emptied since.

        How much of the present one came before nobody knows: it is sent twice rather than not at all.
        """
        self.sent = sent
        if self.end < sent:
            self._before = sent

    def read(self) -> bytes:
        """Return the next bytes to send."""
        start = self.sent or 0
        if start >= self._cap:
            return self._mark[start - self._cap :]
        with open(self.path, "rb", opener=records.without_waiting) as file:
            file.seek(max(0, start - self._before))
            return file.read(min(BATCH, self._cap - start))

    def _cut(self) -> None:
        # Writers append, so they go on behind the cut; one byte more than the cap tells that there was more.
        self._size = max(0, self._cap - self._before) + 1
        os.truncate(self.path, self._size)


class Shipper:
    """Sends the logs of a host one batch after the other, so that at most one is in memory."""

    def __init__(self, link: Link) -> None:
        """Send over `link`."""
        self._link = link

    async def ship(self, token: str, tails: Iterable[tuple[str, Tail]]) -> bool:
        """Send one batch of each log that is due; return whether more is due at once."""
        more = False
        for instance, tail in tails:
            if tail.unsent and time.monotonic() >= tail.due_at:
                await self._ship(token, instance, tail)
                more |= tail.unsent and time.monotonic() >= tail.due_at
        return more

    async def _ship(self, token: str, instance: str, tail: Tail) -> None:
        try:
            if tail.sent is None:
                tail.resume(await self._link.append_log(token, instance, 0, b""))
            content = tail.read()
            tail.sent = await self._link.append_log(token, instance, tail.sent or 0, content)
        except Refused as fault:
            if fault.status == 401:  # of this host, not of this log
                self._later(tail, instance, str(fault))
                return
            tail.refused = True
            log.warning("The platform does not take the log of %s: %s", instance, fault)
        except (Away, OSError) as fault:
            self._later(tail, instance, str(fault))
        else:
            tail.failures = 0
            # A full batch means that more is waiting.
            tail.due_at = time.monotonic() + (0.0 if len(content) == BATCH else GAP_S)

    def _later(self, tail: Tail, instance: str, why: str) -> None:
        if not tail.failures:
            log.warning("The log of %s waits: %s", instance, why)
        tail.failures += 1
        wait_s = min(RETRY_S, 0.25 * 2 ** min(tail.failures, 10))
        tail.due_at = time.monotonic() + wait_s * random.uniform(0.5, 1.0)
