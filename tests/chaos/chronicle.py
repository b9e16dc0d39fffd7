"""What was done and what happened, in order: the counts at the end, the story of a violation."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.chaos.rows import Rows
from tests.chaos.rules import Violation

DEEDS_TOLD = 25  # the last of those that concern everybody
EVENTS_TOLD = 60


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """One line: when (seconds since the epoch), and what."""

    at: float
    says: str
    target: str = ""


class Chronicle:
    """Deeds as they are done; several threads write."""

    def __init__(self) -> None:
        """Begin now."""
        self.began = time.time()
        self.counts: Counter[str] = Counter()
        self._lines: list[Line] = []
        self._lock = threading.Lock()

    def done(self, kind: str, says: str, target: str = "") -> None:
        """Note and count that something was done."""
        with self._lock:
            self.counts[kind] += 1
            self._lines.append(Line(time.time(), f"deed   {says}", target))

    def note(self, says: str) -> None:
        """Note what is no deed."""
        with self._lock:
            self._lines.append(Line(time.time(), f"note   {says}"))

    def story(self, violation: Violation, rows: Rows | None) -> str:
        """Return what came before: the events of the tasks concerned, and the deeds meanwhile."""
        with self._lock:
            lines = list(self._lines)
        told = [line for line in lines if line.target in violation.hosts] + lines[-DEEDS_TOLD:]
        if rows is not None:
            told += sorted(_events(rows, violation.tasks))[-EVENTS_TOLD:]
        ordered = sorted(set(told))
        return "\n".join(f"  {line.at - self.began:8.2f}  {line.says}" for line in ordered)


def _events(rows: Rows, tasks: Iterable[int]) -> Iterator[Line]:
    wanted = frozenset(tasks)
    attempts = {attempt.id: attempt for attempt in rows.attempts if attempt.task in wanted}
    for event in rows.events:
        if event.task in wanted:
            move = f"{event.old or '-'} → {event.new}" if event.new else "(no move)"
            says = f"event  task {event.task}: {event.code} {move} {dict(event.args)}"
            yield Line(event.at.timestamp(), says)
    for attempt in attempts.values():
        says = f"row    {attempt}"
        yield Line(attempt.created_at.timestamp(), says)
    for instance in rows.instances:
        if instance.gang in attempts:
            host = rows.hosts.get(instance.host, str(instance.host))
            at = attempts[instance.gang].created_at.timestamp()
            yield Line(at, f"row    on {host}: {instance}")
