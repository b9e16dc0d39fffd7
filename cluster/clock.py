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
ANSWER_S = 1.0  # an answer that took longer says too little: the last one goes on


@dataclass(frozen=True, slots=True)
class _Look:
    """What the database's clock said, and what a clock of this process said that never jumps."""

    theirs_s: float
    ours_s: float


follows = True  # tests that move the clock set it False
_last: _Look | None = None  # None: not looked yet
_looked_at = -LOOK_EVERY_S  # on the clock that never jumps: the last look, also one that was of no use


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
    """Look at the database's clock, if the last look is old: one small query of a connection that is in use anyway."""
    global _last, _looked_at
    began = time.monotonic()
    if not follows or began - _looked_at < LOOK_EVERY_S:
        return
    _looked_at = began  # before the answer: a database that is slow is not asked by each call meanwhile
    with connection.cursor() as cursor:
        cursor.execute(EPOCH[connection.vendor])
        (theirs_s,) = cursor.fetchone()
    took_s = time.monotonic() - began
    if took_s <= ANSWER_S:
        _last = _Look(theirs_s, began + took_s / 2)
