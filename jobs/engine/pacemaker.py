"""Passes where nobody asks for any: the broker is away, or the beat, and the worker is there all the same."""

import logging
import threading
from collections.abc import Callable

from django.conf import settings
from django.db import connections

from jobs.engine import passes, pulse

log = logging.getLogger(__name__)
PERIODS = 3  # of the beat without a pass: then it is time for one


def late_after_s() -> float:
    """Return after how many seconds without a pass one is made without being asked for."""
    return PERIODS * float(settings.PASS_PERIOD_S)


class Pacemaker:
    """A thread that looks each period of the beat how old the last pass is, and makes one where that is too old.

    However many processes have one: the lease of the pass lets one of them at a time.
    """

    def __init__(self, run: Callable[[], object] = passes.run) -> None:
        """Make passes by `run`; nothing begins yet."""
        self._run = run
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pacemaker", daemon=True)

    def start(self) -> None:
        """Begin to look, a period from now."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more. A pass that is on its way goes on: its lease is its own."""
        self._over.set()

    def join(self) -> None:
        """Wait until it looks no more."""
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(float(settings.PASS_PERIOD_S)):
            try:
                self.look()
            except Exception:  # the database is away, say: the next period tries again
                log.exception("no pass could be made")
                connections.close_all()

    def look(self) -> bool:
        """Make a pass where the last one is too old; say whether it was."""
        age_s = pulse.look().age_s
        if age_s is not None and age_s < late_after_s():
            return False
        log.warning("no pass for %s: one is made unasked", "ever" if age_s is None else f"{age_s:.0f} s")
        self._run()
        return True
