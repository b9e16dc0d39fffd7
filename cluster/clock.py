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
# An answer that took longer says less than what is known: two servers differ by no more than this.
ANSWER_S = 0.2
PRECISE_S = 0.02  # one that took longer is asked for again soon
AGAIN_S = 1.0
DRIFT = 0.001  # seconds in a second: how much less is known of a clock that was looked at so long ago


@dataclass(frozen=True, slots=True)
class _Look:
    """What the database's clock said, and what a clock of this process said that never jumps."""

    theirs_s: float
    ours_s: float
    took_s: float  # between question and answer: it is right to half of that

    def says_s(self, now_s: float) -> float:
        """Return what the database's clock says by now."""
        return self.theirs_s + now_s - self.ours_s

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
    return time.time() if last is None else last.says_s(time.monotonic())


def ahead_s() -> float:
    """Return by how much this machine's own clock is ahead of it; negative where it is behind."""
    return time.time() - seconds()


def follow() -> None:
    """Look at the database's clock, if the last look is old: one small query of a connection that is in use anyway."""
    global _last, _next_at
    now_s = time.monotonic()
    if not follows or now_s < _next_at:
        return
    _next_at = now_s + AGAIN_S  # set first: a database that is slow is not asked by each call meanwhile
    look, ended_s = _look()
    if _is_believed(look, ended_s):
        _last = look
    if look.took_s <= PRECISE_S:
        _next_at = now_s + LOOK_EVERY_S


def _look() -> tuple[_Look, float]:
    """Ask the database; return the answer, and when it was here."""
    with connection.cursor() as cursor:  # which may have to connect first: that takes long, and says nothing
        began_s = time.monotonic()
        cursor.execute(EPOCH[connection.vendor])
        (theirs_s,) = cursor.fetchone()
        ended_s = time.monotonic()
    return _Look(theirs_s, (began_s + ended_s) / 2, ended_s - began_s), ended_s


def _is_believed(look: _Look, now_s: float) -> bool:
    """Say whether a look goes on in place of the last: where it says more, or what cannot be by what is known.

    The better of two is kept (Cristian's algorithm, "Probabilistic clock synchronization", 1989): while a process is
    stopped, or the database slow, the answer says less than the look before. But where the two exclude each other
    the database's clock was set meanwhile, or this machine stood still. Before the first look this machine's own
    clock is taken for right, as NTP keeps it.
    """
    known = _last or _Look(time.time(), now_s, ANSWER_S)
    apart_s = abs(look.says_s(now_s) - known.says_s(now_s))
    doubt_s, known_doubt_s = look.unsure_s(now_s), known.unsure_s(now_s)
    return doubt_s <= known_doubt_s or apart_s > doubt_s + known_doubt_s
