"""How long tasks hold their cards, as far as anybody knows: their time limits, else their users' past."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from jobs.scheduling.types import Running, Waiting

MOST = 30  # of a user's finished tasks, the last ones count
LEAST = 3  # fewer than so many say nothing

Source = Literal["limit", "past"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A task that ended well: whose it was, its cards over all hosts, and for how many seconds it had them."""

    user: int
    cards: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Seconds from a start to the end, and where they come from; `of` finished tasks where from the past."""

    seconds: float
    source: Source
    of: int = 0


class Lengths:
    """What is known: a time limit, else the median of the user's last tasks of that size, or of any size."""

    def __init__(
        self, newest_first: Iterable[Finished] = (), kept_until: Mapping[int, float] = MappingProxyType({})
    ) -> None:
        """Take finished tasks, and of tasks that keep their place until when they do (task → time)."""
        self.kept_until = dict(kept_until)
        self._past: dict[tuple[int, int | None], list[float]] = {}  # by user and cards, by user alone
        for row in newest_first:
            for key in ((row.user, row.cards), (row.user, None)):
                known = self._past.setdefault(key, [])
                if len(known) < MOST:
                    known.append(row.seconds)
        for known in self._past.values():
            known.sort()

    def of(self, task: Waiting | Running, cards: int, ran: float = 0.0) -> Length | None:
        """Return how long the task runs in all, once it ran for `ran` seconds; None: nobody knows."""
        if task.time_limit is not None:
            return Length(seconds=max(task.time_limit, ran), source="limit")
        return self._median(task.user, cards, ran) or self._median(task.user, None, ran)

    def _median(self, user: int, cards: int | None, ran: float) -> Length | None:
        """Return the median of those that ran longer than that: the shorter ones speak of other tasks."""
        known = self._past.get((user, cards), [])
        longer = known[bisect_right(known, ran) if ran else 0 :]
        if len(longer) < LEAST:
            return None
        return Length(seconds=longer[len(longer) // 2], source="past", of=len(longer))
