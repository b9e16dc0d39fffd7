"""Look at rows and processes again and again, and stop everything at the first thing that does not hold."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.db import DatabaseError, connection

from tests.chaos import real, rules
from tests.chaos.alive import Alive, look
from tests.chaos.people import POLICY
from tests.chaos.rows import Rows, load
from tests.chaos.rules import Violation

PAUSE_S = 0.5
STILL = timedelta(seconds=30)  # what ended so long before the last look is looked at once more
LATE_S = 90.0  # longer than any worker is stopped in the middle of a pass
CAP = int(POLICY["max_evictions_per_hour"])


class Watch:
    """The checks while everything goes on, in a thread of their own, and those at the end."""

    def __init__(self, data: Path) -> None:
        """Watch the product whose data folder this is."""
        self._data = data
        self._before: Rows | None = None
        self._looked_at = datetime.fromtimestamp(0, UTC)
        self._quotas: deque[tuple[float, dict[rules.Key, int]]] = deque()
        self.looks = 0
        self.violation: Violation | None = None

    def run(self, over: threading.Event) -> None:
        """Look until `over` is set, or set it where something does not hold."""
        while not over.wait(PAUSE_S):
            try:
                self.violation = rules.first(self._found())
            except DatabaseError:
                connection.close()
            except Exception as error:  # a check that cannot be made must not pass for one that held
                self.violation = Violation(rule="watch", says=f"the checks failed: {error!r}")
                over.set()
                raise
            if self.violation is not None:
                over.set()
        connection.close()

    def _found(self) -> Iterator[Violation]:
        """Give what does not hold now; processes are looked at before and after the rows."""
        earlier = look(self._data)
        now = datetime.now(UTC)
        rows = load(self._looked_at - STILL if self._before else None)
        later = look(self._data)
        before, self._before, self._looked_at = self._before, rows, now
        yield from real.no_card_is_used_twice(earlier)
        yield from real.no_card_is_used_twice(later)
        yield from real.no_task_runs_twice(earlier, rows)
        yield from real.what_is_gone_does_not_run(rows, later)
        yield from rules.broken(rows, CAP)
        if before is not None:
            yield from rules.grown_wrongly(before, rows)
            yield from rules.beyond_quota(before, rows, self._highest_quotas(rows))
        self.looks += 1

    def _highest_quotas(self, rows: Rows) -> dict[rules.Key, int]:
        """Return the highest quotas of late: by one that was lowered since, a pass may still act."""
        now = time.monotonic()
        self._quotas.append((now, rules.quotas_of(rows)))
        while self._quotas[0][0] < now - LATE_S:
            self._quotas.popleft()
        return rules.highest_of(quotas for _, quotas in self._quotas)

    def at_the_end(self, rows: Rows, alive: Iterable[Alive], accepted: Iterable[int]) -> Violation | None:
        """Return what does not hold once everything was calm, of all there ever was."""
        return rules.first(self._left(rows, tuple(alive), frozenset(accepted)))

    def _left(self, rows: Rows, alive: tuple[Alive, ...], accepted: frozenset[int]) -> Iterator[Violation]:
        for task in sorted(accepted - rows.tasks.keys()):
            yield Violation(
                rule="I9", says=f"task {task} was accepted and is not there", tasks=frozenset({task})
            )
        yield from rules.broken(rows, CAP)
        yield from rules.unsettled(rows)
        yield from real.nothing_runs(alive)
        traces = real.read_traces(self._data / "storage")
        yield from real.traces_agree(rows, traces)
        yield from real.successes_are_true(rows, traces)
