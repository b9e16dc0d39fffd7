"""Remove the logs of instances that ended long ago; their rows say when that was done."""

import logging
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from django.conf import settings

from cluster import clock, logs
from cluster.models import Instance

log = logging.getLogger(__name__)
CHUNK = 500  # logs looked up at a time


def remove(before: datetime) -> int:
    """Remove each log that nothing was added to since `before`, and whose instance was gone by then.

    Goes by the files, so it costs as much as there are logs, however many instances there ever were. Returns
    how many were removed.
    """
    removed = 0
    chunk: list[uuid.UUID] = []
    for instance in _unchanged_since(before):
        chunk.append(instance)
        if len(chunk) == CHUNK:
            removed += _remove(chunk, before)
            chunk = []
    removed += _remove(chunk, before)
    if removed:
        log.info("%d logs of before %s were removed", removed, f"{before:%F}")
    return removed


def _unchanged_since(before: datetime) -> Iterator[uuid.UUID]:
    for path in sorted(Path(settings.TASK_LOG_DIR).glob("??/*.log")):
        if path.stat().st_mtime < before.timestamp():
            yield uuid.UUID(path.stem)


def _remove(found: Sequence[uuid.UUID], before: datetime) -> int:
    live = Instance.objects.filter(pk__in=found).exclude(phase=Instance.Phase.GONE, gone_at__lt=before)
    kept = set(live.values_list("pk", flat=True))
    old = [pk for pk in found if pk not in kept]
    # Noted first: a file that outlives a crash here is removed the next time, a note would never be made up for.
    Instance.objects.filter(pk__in=old, log_removed_at=None).update(log_removed_at=clock.now())
    for pk in old:
        logs.path_of(pk).unlink(missing_ok=True)
    return len(old)
