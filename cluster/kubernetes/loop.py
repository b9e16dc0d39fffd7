"""The process of one cluster: rounds as soon as something changed, and at least once a second."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from django.db import InterfaceError, OperationalError, ProgrammingError, close_old_connections

from cluster import hints, hub
from cluster.kubernetes.controller import Controller
from cluster.kubernetes.lease import NotHolder

log = logging.getLogger(__name__)
ROUND_EVERY_S = 1.0  # without news: what was lost of them costs no more
GATHER_S = 0.05  # what happens at once is taken together
TOLD_AGAIN_S = 60.0
LISTEN_S = 20.0

# It is away, or already that of the next version.
NO_DATABASE = (OperationalError, InterfaceError, ProgrammingError)


class Loop:
    """Rounds until a signal says to end."""

    def __init__(self, controller: Controller, alive: Path | None = None) -> None:
        """Touch the file `alive` after each round, for who watches this process."""
        self._controller, self._alive = controller, alive
        self._ended = threading.Event()
        self._told, self._told_at = "", 0.0

    def run(self) -> None:
        """Run until `end`."""
        self._controller.start()
        threading.Thread(target=self._listen, name="hints", daemon=True).start()
        try:
            while not self._ended.is_set():
                self._controller.wake.wait(ROUND_EVERY_S)
                time.sleep(GATHER_S)
                self._controller.wake.clear()
                self._round()
        finally:
            self._controller.stop()

    def end(self, *_signal: object) -> None:
        """End after the present round."""
        self._ended.set()
        self._controller.wake.set()

    def until_signal(self) -> None:
        """Run until TERM or INT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.end)
        self.run()

    def _round(self) -> None:
        close_old_connections()
        try:
            if not self._controller.round():
                self._tell(self._controller.trouble())
            else:
                self._tell("")
        except NotHolder as error:
            self._tell(str(error))
        except NO_DATABASE:
            log.exception("the database does not answer: the round is made again")
            time.sleep(ROUND_EVERY_S)
        except Exception as error:
            # To end here would be to stumble over the same again at once, and to speak for no host meanwhile. It shows
            # by what it says, and by a probe of the file, which is not touched.
            log.exception("the round broke off: it is made again")
            self._tell(f"A round broke off, and is made again: {error!r}")
            time.sleep(ROUND_EVERY_S)
            return
        if self._alive is not None:
            self._alive.touch()

    def _tell(self, trouble: str) -> None:
        """Say what is wrong, once and again each minute, and when it is over."""
        now = time.monotonic()
        if trouble == self._told and (not trouble or now - self._told_at < TOLD_AGAIN_S):
            return
        (log.warning if trouble else log.info)("%s", trouble or "All is well: the cluster is heard.")
        self._told, self._told_at = trouble, now

    def _listen(self) -> None:
        asyncio.run(_hear(self._controller.hosts, self._controller.wake.set, self._ended))


async def _hear(
    hosts: Callable[[], frozenset[int]], wake: Callable[[], None], ended: threading.Event
) -> None:
    """Wake whenever something is told to one of the hosts."""
    while not ended.is_set():
        known = hosts()
        async with hub.listen(*(hints.host_topic(host) for host in sorted(known))) as listener:
            until = time.monotonic() + LISTEN_S
            while not ended.is_set() and hosts() == known and time.monotonic() < until:
                if await listener.changed(1.0):
                    wake()
