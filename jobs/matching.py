"""Which tasks filters match, for what is done to many of them: in bounded time, and telling what was not looked at."""

import time
from dataclasses import dataclass, replace

from jobs import pages
from jobs.filters import NEWEST, Filters

AT_ONCE = 2000  # ids read in one look
LOOK_S = 5.0  # after which no other look is begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The tasks that were found, the newest first."""

    ids: list[int]
    more: bool = False  # there may be more than these
    reached: int | None = None  # below this number there was no time to look


def matching(filters: Filters, limit: int, looks: int | None = None) -> Found:
    """Return ids of tasks that match, `limit` at most, after so many looks at most (None: as long as time allows)."""
    ids: list[int] = []
    if not filters.states:
        return Found(ids=ids)
    filters = replace(filters, order=NEWEST)
    below, looked, until = None, 0, time.monotonic() + LOOK_S
    while True:
        found = pages.cut(filters, below=below, size=min(AT_ONCE, limit - len(ids)))
        ids += found.ids
        below = pages.key(found.below, NEWEST) if found.below else None
        if below is None or len(ids) >= limit:
            return Found(ids=ids, more=below is not None)
        looked += 1
        if looked == looks or time.monotonic() >= until:
            return Found(ids=ids, reached=below.pk)
