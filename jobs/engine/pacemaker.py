"""Passes where nobody asks for any: the broker is away, or the beat, and the worker is there all the same."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime

from django.conf import settings
from django.db import connections

from jobs.engine import passes
from jobs.models import PassLease

log = logging.getLogger(__name__)
PERIODS = 3  # of the beat in which no pass ended: then it is time for one
STOP_S = 4.0  # a pass on its way is waited for so long: whoever ends the worker kills it after 6 s


def _run_at_once() -> passes.Done | None:
    """Run a pass, or leave it to whoever has one on its way."""
    return passes.run(wait_s=0)


class Pacemaker:
    """A thread that looks each period of the beat whether passes end, and makes them where none does.

    However many processes have one: the lease of the pass lets one of them at a time, and whoever made the last one
    goes on, one each period, until somebody else makes one. No clock that may be put back is asked for this.
    """

    def __init__(
        self, run: Callable[[], object] = _run_at_once, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Make passes by `run`, which returns None where one is on its way elsewhere; nothing begins yet."""
        self._run, self._clock = run, clock
        self._ended_at: datetime | None = None  # the last pass that was seen, …
        self._since = clock()  # … since when nothing else was, …
        self._is_ours = False  # … and whether it was made here
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pacemaker", daemon=True)

    def start(self) -> None:
        """Begin to look, a period from now."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more, and let a pass that is on its way come to its end, if it does soon.

        Cut off it would harm nothing, but keep its lease from others until that runs out.
        """
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _beat(self) -> None:
        while not self._over.wait(float(settings.PASS_PERIOD_S)):
            try:
                self.look()
            except Exception:  # the database is away, say: the next period tries again
                log.exception("no pass could be made")
                connections.close_all()
        connections.close_all()

    def look(self) -> bool:
        """Make a pass where none ended for too long; say whether one was made."""
        ended_at, now = _last_end(), self._clock()
        if ended_at != self._ended_at:
            self._ended_at, self._since, self._is_ours = ended_at, now, False
        silent_s = now - self._since
        if not self._is_ours and silent_s < PERIODS * float(settings.PASS_PERIOD_S):
            return False
        if self._run() is None:
            return False
        if not self._is_ours:
            log.warning("no pass ended for %.0f s: they are made unasked from now on", silent_s)
        self._ended_at, self._since, self._is_ours = _last_end(), self._clock(), True
        return True


def _last_end() -> datetime | None:
    return PassLease.objects.filter(pk=1).values_list("finished_at", flat=True).first()
