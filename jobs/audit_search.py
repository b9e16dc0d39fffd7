"""The audit searched, for a page and for programs, and as CSV that is sent while it is read."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from cluster import threads
from jobs import csv_lines, deed_args
from quotas import audit
from quotas.audit import AuditEntry

# What is looked for, by the name that it has in addresses: all that is given has to be so.
COLUMNS = {
    "user": "actor",
    "deed": "deed__startswith",
    "kind": "kind",
    "target": "target_id",
    "address": "address",
    "since": "at__gte",
    "until": "at__lt",
}
HEADS = (
    *("id", "at", "user", "user_id", "deed", "kind", "target_id", "target", "address", "agent"),
    *("token_id", "args"),
)  # names for programs: they stay
CHUNK = 1000  # entries of a file read at a time


def found(wanted: Mapping[str, Any]) -> QuerySet[AuditEntry]:
    """Return the entries that match, newest first; what is blank narrows nothing."""
    chosen = {COLUMNS[name]: value for name, value in wanted.items() if value}
    target = wanted.get("target")
    rows = audit.of_target(target) if target and not wanted.get("kind") else AuditEntry.objects.all()
    return rows.filter(**chosen).order_by("-pk")


def send(
    wanted: Mapping[str, Any], *, by: User, asked: Mapping[str, str], for_excel: bool
) -> StreamingHttpResponse:
    """Send all that matches, and note who took it and what he asked for."""
    audit.note("audit.exported", by=by, name="", filters=dict(asked))
    return csv_lines.file("audit", _parts(wanted, csv_lines.BOM if for_excel else ""))


async def _parts(wanted: Mapping[str, Any], lead: str) -> AsyncIterator[bytes]:
    yield (lead + csv_lines.lines([HEADS])).encode()
    below: int | None = None
    while True:
        text, below = await threads.run(_chunk, wanted, below)
        if text:
            yield text.encode()
        if below is None:
            return


def _chunk(wanted: Mapping[str, Any], below: int | None) -> tuple[str, int | None]:
    """Return the lines of the next entries, and the id behind which it goes on."""
    rows = found(wanted) if below is None else found(wanted).filter(pk__lt=below)
    entries = list(rows[:CHUNK])
    text = csv_lines.lines(_cells(entry) for entry in entries)
    return text, entries[-1].pk if len(entries) == CHUNK else None


def _cells(entry: AuditEntry) -> list[Any]:
    return [
        *(entry.pk, csv_lines.time(entry.at), entry.actor, entry.actor_id, entry.deed, entry.kind),
        *(entry.target_id, entry.target, entry.address, entry.agent, entry.token_id),
        deed_args.for_files(entry.args),
    ]
