"""Fetch packed code from the platform, once for all instances that run it, and keep it for the next ones."""

import asyncio
import hashlib
import logging
import os
import time
from pathlib import Path
from typing import Any

from cluster.agent.link import Away, Link, Refused

log = logging.getLogger(__name__)
CAP = 20 * 2**30  # bytes kept of packed code
LIMIT_S = 3600.0  # a platform that sends a little now and then is given up
RECENT_S = 3600.0  # what was asked for so lately may be about to be unpacked


class Courier:
    """The packed code on this host, a file for each digest."""

    def __init__(self, link: Link, folder: Path, cap: int = CAP, limit_s: float = LIMIT_S) -> None:
        """Keep about `cap` bytes in `folder`; each digest may take `limit_s` to come."""
        self._link = link
        self._folder = folder
        self._cap = cap
        self._limit_s = limit_s

    async def bring(self, token: str, digest: str) -> dict[str, Any]:
        """Return what to tell those who wait for `digest`; raises Away.

        {"bundle": path}, or {"fault": sentence} with a "cause" of protocol.CAUSES.
        """
        path = self._folder / f"{digest}.tar.gz"
        try:
            if not path.exists():
                await self._fetch_in_time(token, digest, path)
            os.utime(path)
        except Refused as fault:
            if fault.status == 401:  # of this host, not of this code
                raise Away(str(fault)) from fault
            return {"fault": f"The platform does not hand out the code: {fault}", "cause": "code"}
        except ValueError as fault:
            return {"fault": str(fault), "cause": "code_away"}
        except OSError as error:
            sentence = f"The code could not be kept on this host: {error.strerror or error}."
            return {"fault": sentence, "cause": "code_away"}
        return {"bundle": str(path)}

    async def _fetch_in_time(self, token: str, digest: str, path: Path) -> None:
        try:
            async with asyncio.timeout(self._limit_s):
                await self._fetch(token, digest, path)
        except TimeoutError as late:
            raise Away(f"The code {digest} did not come within {self._limit_s:g} s.") from late

    async def _fetch(self, token: str, digest: str, path: Path) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._trim()
        draft = path.with_suffix(".part")
        found = hashlib.sha256()
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                async for part in self._link.download(token, digest):
                    found.update(part)
                    file.write(part)
                # On the disk before it has its name: nobody looks at its digest again.
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            if found.hexdigest() != digest:
                raise ValueError("The code arrived damaged: it is not what its digest says.")
            draft.replace(path)
            log.info("The code %s is here: %d bytes.", digest, path.stat().st_size)
        finally:
            draft.unlink(missing_ok=True)

    def _trim(self) -> None:
        """Remove what was not used for longest until the rest is within the cap."""
        # By no thread: nothing else of this agent removes or renames one meanwhile.
        files = sorted((path.stat().st_mtime, path) for path in self._folder.iterdir())
        size = sum(path.stat().st_size for _used, path in files)
        for used, path in files:
            if size <= self._cap or used > time.time() - RECENT_S:
                return
            size -= path.stat().st_size
            path.unlink()
