"""The beat: what it asks for bears no time, so that nobody's clock has to agree with that of another machine."""

from typing import Any

from celery.beat import PersistentScheduler, ScheduleEntry

from cluster import hints


class Beat(PersistentScheduler):  # type: ignore[misc]  # Celery has no types
    """Celery's own, that leaves out what nobody would take.

    The usual way, an expiry in each message, is written by one clock and read by another: a worker whose clock is ahead
    would throw everything away.
    """

    def tick(self, *arguments: Any, **more: Any) -> Any:
        """Ask for what is due, also after this machine's clock was put back: what was asked for later is due anew."""
        for entry in self.schedule.values():
            if entry.last_run_at > entry.default_now():
                entry.last_run_at = entry.default_now()
                self._heap = None  # Celery makes it anew
        return super().tick(*arguments, **more)

    def apply_async(self, entry: ScheduleEntry, *arguments: Any, **more: Any) -> Any:
        """Ask for it, unless so much waits already that nobody seems to be there: it is asked for again soon enough."""
        return super().apply_async(entry, *arguments, **more) if hints.are_taken() else None
