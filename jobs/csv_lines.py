"""Files of CSV, sent while they are read, for spreadsheets that take what begins like a formula for one."""

import csv
import io
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any

from django.http import StreamingHttpResponse
from django.utils import timezone

from cluster import clock
from quotas.formulas import guarded

BOM = "\ufeff"  # tells Excel that the file is UTF-8


def lines(rows: Iterable[Iterable[Any]]) -> str:
    """Return the rows as text."""
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([guarded(cell) for cell in row])
    return text.getvalue()


def file(name: str, parts: AsyncIterator[bytes]) -> StreamingHttpResponse:
    """Send the parts, as they come, as a file of this name with the time behind it."""
    response = StreamingHttpResponse(parts, content_type="text/csv; charset=utf-8")
    stamp = timezone.localtime(clock.now()).strftime("%Y%m%d-%H%M%S")
    response["Content-Disposition"] = f'attachment; filename="{name}-{stamp}.csv"'
    response["X-Accel-Buffering"] = "no"  # else a proxy would keep it until it is whole
    return response


def time(at: datetime | None) -> str:
    """Return a time as programs read it; blank for none."""
    return at.astimezone(UTC).isoformat(timespec="seconds") if at else ""
