"""The time that servers share: that of the database, at which each looks now and then, whatever its own clock says.

What one server writes another compares: when a host was heard, when a task began. Hosts' clocks are never asked.
"""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection

LOOK_EVERY_S = 10.0
EPOCH = {
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())::float8",
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400",  # that is the clock of this machine
}
ANSWER_S = 0.2  # an answer that took longer says too little: two servers differ by no more than this
PRECISE_S = 0.02  # one that took longer is asked for again soon
AGAIN_S = 1.0
DRIFT = 0.001  # seconds in a second: how much less is known of a clock that was looked at so long ago


@dataclass(frozen=True, slots=True)
class _Look:
    """What the database's clock said, and what a clock of this process said that never jumps."""

    theirs_s: float
    ours_s: float
    took_s: float  # between question and answer: it is right to half of that

    def unsure_s(self, now_s: float) -> float:
        """Return by how much it may be wrong by now."""
        return self.took_s / 2 + DRIFT * (now_s - self.ours_s)


follows = True  # tests that move the clock set it False
_last: _Look | None = None  # None: not looked yet
_next_at = 0.0  # on the clock that never jumps: when to look again


def now() -> datetime:
    """Return the shared time; asks nobody."""
    return datetime.fromtimestamp(seconds(), UTC)


def seconds() -> float:
    """Return it in seconds since the epoch."""
    last = _last  # read once: another thread may look meanwhile
    return time.time() if last is None else last.theirs_s + time.monotonic() - last.ours_s


def ahead_s() -> float:
    """Return by how much this machine's own clock is ahead of it; negative where it is behind."""
    return time.time() - seconds()


def follow() -> None:
    """Look at the database's clock, if the last look is old: one small query of a connection that is in use anyway.

    The better of two looks is kept (Cristian's algorithm, "Probabilistic clock synchronization", 1989): while a
    process is stopped, or the database slow, the answer says less than the look before.
    """
    global _last, _next_at
    began = time.monotonic()
    if not follows or began < _next_at:
        return
    _next_at = (
        began + AGAIN_S
    )  # before the answer: a database that is slow is not asked by each call meanwhile
    with connection.cursor() as cursor:
        cursor.execute(EPOCH[connection.vendor])
        (theirs_s,) = cursor.fetchone()
    ended = time.monotonic()
    look = _Look(theirs_s, (began + ended) / 2, ended - began)
    if look.took_s <= ANSWER_S and (_last is None or look.unsure_s(ended) <= _last.unsure_s(ended)):
        _last = look
    if look.took_s <= PRECISE_S:
        _next_at = began + LOOK_EVERY_S
