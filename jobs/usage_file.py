"""The usage rows of one business as CSV, sent while they are read: what each attempt used, once it ended."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime, time, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.http import StreamingHttpResponse
from django.utils import timezone

from cluster import clock, threads
from jobs import csv_lines
from quotas import access
from quotas.models import Business, UsageRow

HEADS = (
    *("attempt", "task", "business", "user", "gpu_type", "class", "cards", "started_at", "ended_at"),
    *("card_hours", "outcome"),
)  # names for programs: they stay
CHUNK = 2000  # rows read at a time
HOUR_S = 3600

Key = tuple[datetime, int]  # of the last row that was sent


def send(business: Business, days: int, *, to: User, for_excel: bool) -> StreamingHttpResponse:
    """Send what ended in the last days, today among them, the oldest first.

    Who used it stands there for those who oversee the business, and for others where it was themselves.
    """
    oversees = access.businesses_overseen_by(to).filter(pk=business.pk).exists()
    first = timezone.localdate(clock.now()) - timedelta(days=days - 1)
    begin = datetime.combine(first, time.min, timezone.get_default_timezone())
    lead = csv_lines.BOM if for_excel else ""
    parts = _parts(business.pk, begin, None if oversees else to.pk, lead)
    return csv_lines.file(f"usage-{business.pk}", parts)


async def _parts(business: int, begin: datetime, only_user: int | None, lead: str) -> AsyncIterator[bytes]:
    yield (lead + csv_lines.lines([HEADS])).encode()
    last: Key | None = (begin, 0)
    while last is not None:
        text, last = await threads.run(_chunk, business, last, only_user)
        if text:
            yield text.encode()


def _chunk(business: int, last: Key, only_user: int | None) -> tuple[str, Key | None]:
    """Return the lines behind the row `last`, and the key behind which they go on."""
    at, pk = last
    behind = Q(ended_at__gt=at) | Q(ended_at=at, id__gt=pk)
    rows = UsageRow.objects.filter(behind, business=business, ended_at__gte=at)
    found = list(rows.select_related("business", "user", "gpu_type").order_by("ended_at", "id")[:CHUNK])
    text = csv_lines.lines(_cells(row, only_user) for row in found)
    return text, (found[-1].ended_at, found[-1].pk) if len(found) == CHUNK else None


def _cells(row: UsageRow, only_user: int | None) -> Iterable[Any]:
    named = only_user is None or row.user_id == only_user
    return [
        *(row.attempt, row.task, row.business.flag, row.user.get_username() if named else ""),
        *(row.gpu_type.name, row.task_class, row.cards),
        *(csv_lines.time(row.started_at), csv_lines.time(row.ended_at)),
        *(round(row.cards * row.seconds / HOUR_S, 4), row.outcome),
    ]
