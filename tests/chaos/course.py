"""One run: start, break things for a while, let everything come to rest, and say what was seen."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.db import DatabaseError, connection
from django.utils import timezone

from cluster.models import Card
from jobs.models import Task, TaskEvent
from jobs.states import TERMINAL, State
from launch import postgres
from launch.words import Refusal
from tests.chaos import deeds as planned
from tests.chaos.alive import look
from tests.chaos.chronicle import Chronicle
from tests.chaos.faults import Faults
from tests.chaos.installation import CARDS, Installation
from tests.chaos.people import People
from tests.chaos.rows import Rows, load
from tests.chaos.rules import Violation
from tests.chaos.watch import Watch

PEOPLE = 3  # who ask at the same time
START_S = 180.0  # for all hosts to be there
PATIENCE_S = 180.0  # without a single event, until what is not over by then counts as stuck


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run did and saw."""

    counts: Counter[str]
    looks: int
    rest_s: float  # from the last fault mended until nothing happened any more
    violation: Violation | None
    story: str = ""


def run(seed: int, minutes: float, folder: Path, cluster: postgres.Cluster) -> Result:
    """Run it, everything below `folder`; raises launch.words.Refusal where it does not even start."""
    installation = Installation(folder, cluster)
    try:
        installation.start()
        return _Course(seed, minutes, installation).run()
    finally:
        connection.close()
        installation.end()
        installation.save_logs(folder / "logs")


class _Course:
    """A started installation, those who use it, and those who break and watch it."""

    def __init__(self, seed: int, minutes: float, installation: Installation) -> None:
        self.deeds = planned.deeds(seed, minutes)
        self.there = installation
        self.chronicle = Chronicle()
        self.faults = Faults(installation, self.chronicle)
        self.people = People(installation.product.places.url, seed, self.chronicle)
        self.watch = Watch(installation.data)
        self.over = threading.Event()
        self.mended_at = 0.0
        self.failed: Violation | None = None  # of a thread that should have gone on

    def run(self) -> Result:
        """Go through all of it."""
        self.people.settle_in()
        self._wait_for_hosts()
        self.people.begin(self.deeds)
        work = [self.watch.run, *([self.people.run] * PEOPLE)]
        threads = [threading.Thread(target=self._guarded, args=(one,)) for one in work]
        for thread in threads:
            thread.start()
        try:
            self.faults.run(self.deeds, self.over)
            self._come_to_rest()
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        return self._result()

    def _guarded(self, work: Callable[[threading.Event], None]) -> None:
        """Do the work of a thread; where it cannot go on the run is over, and has failed."""
        try:
            work(self.over)
        except Exception as error:
            self.failed = Violation(rule="run", says=f"{error!r}")
            self.over.set()
            raise

    def _wait_for_hosts(self) -> None:
        wanted = sum(int(cards.partition(":")[2]) for cards in CARDS.values())
        until = time.monotonic() + START_S
        while Card.objects.count() < wanted:
            if time.monotonic() > until:
                raise Refusal(f"The hosts did not come:\n{self.there.product.logs()}")
            self.faults.tend()
            time.sleep(0.2)

    def _come_to_rest(self) -> None:
        """Mend everything, and wait until nothing happens any more: how long that takes says nothing."""
        self.chronicle.note("everything is mended")
        self.mended_at = time.monotonic()
        self.faults.calm()
        newest, since = 0, time.monotonic()
        while not self.over.is_set() and time.monotonic() - since < PATIENCE_S:
            self.faults.tend()
            time.sleep(0.3)
            try:
                if self._is_at_rest():
                    return
                if newest != (newest := self._newest()):
                    since = time.monotonic()
            except DatabaseError:
                connection.close()

    def _is_at_rest(self) -> bool:
        if self.people.unanswered:
            return False
        self.people.calm()
        left = Task.objects.exclude(state__in=[*TERMINAL, State.HELD]).exists()
        return not left and not look(self.there.data)

    def _newest(self) -> int:
        """Return what changes as long as something goes on: the last event, or the time where a task only rests."""
        resting = Task.objects.filter(state=State.QUEUED, ready_at__gt=timezone.now()).exists()
        newest = TaskEvent.objects.order_by("-id").values_list("id", flat=True).first() or 0
        return -time.monotonic_ns() if resting else newest

    def _result(self) -> Result:
        rest_s = time.monotonic() - self.mended_at if self.mended_at else 0.0
        rows = self._rows()
        counts = self.chronicle.counts + counted(rows) if rows else self.chronicle.counts
        found = self.watch.violation or self.failed
        if found is None and rows is None:
            found = Violation(rule="run", says="the database does not answer any more")
        if found is None and rows is not None:
            found = self.watch.at_the_end(rows, look(self.there.data), self.people.accepted.values())
        story = self.chronicle.story(found, rows) if found else ""
        return Result(counts=counts, looks=self.watch.looks, rest_s=rest_s, violation=found, story=story)

    def _rows(self) -> Rows | None:
        """Return all rows, once the database answers; None where it does not."""
        self.faults.calm()
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            self.faults.tend()
            try:
                return load()
            except DatabaseError:
                connection.close()
                time.sleep(0.3)
        return None


def counted(rows: Rows) -> Counter[str]:
    """Return how often tasks started, were evicted and pulled up, by the rows."""
    outcomes = {(attempt.task, attempt.number): attempt.outcome for attempt in rows.attempts}
    found: Counter[str] = Counter()
    for attempt in rows.attempts:
        found["starts"] += 1
        found["evictions"] += bool(attempt.evict_rule)
        found["pull_ups"] += outcomes.get((attempt.task, attempt.number - 1)) == "evicted"
        found["lost"] += attempt.outcome == "lost"
    found["tasks"] = len(rows.tasks)
    return found
