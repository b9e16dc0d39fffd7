"""The filtered list of tasks as CSV, sent while it is read."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

from django.http import StreamingHttpResponse
from django.utils import translation

from cluster import inventory, threads
from jobs import csv_lines, pages
from jobs.filters import Filters
from jobs.models import Priority, Task
from jobs.pages import Key
from jobs.why import last_attempts, why

HEADS = (
    *("id", "task_flag", "business", "user", "state", "class", "host_num", "host_gpu_num", "gpu_types"),
    *("region", "priority", "submitted_at", "queued_at", "ended_at", "reason_code", "reason"),
)  # the API's names: they are for programs, and stay
CHUNK = 1000  # tasks read at a time
PRIORITIES = {priority.value: priority.name.lower() for priority in Priority}


def send(filters: Filters, *, for_excel: bool) -> StreamingHttpResponse:
    """Send all tasks that match the filters, in the language of the request at hand."""
    lead = csv_lines.BOM if for_excel else ""
    return csv_lines.file("tasks", _parts(filters, lead, translation.get_language() or "en"))


async def _parts(filters: Filters, lead: str, language: str) -> AsyncIterator[bytes]:
    yield (lead + csv_lines.lines([HEADS])).encode()
    below: Key | None = None
    while True:
        text, onward = await threads.run(_chunk, filters, below, language)
        if text:
            yield text.encode()
        below = pages.key(onward, filters.order) if onward else None
        if below is None:
            return


def _chunk(filters: Filters, below: Key | None, language: str) -> tuple[str, str | None]:
    """Return the lines of the next tasks, and the key behind which the list goes on."""
    found = pages.cut(filters, below=below, size=CHUNK)
    with translation.override(language):  # the request that chose it is over
        return csv_lines.lines(_cells(found.ids)), found.below


def _cells(ids: list[int]) -> Iterable[list[Any]]:
    tasks = Task.objects.select_related("business", "user", "region").defer("config", "secrets").in_bulk(ids)
    last = last_attempts(ids)
    names = inventory.type_names()
    for pk in ids:
        task = tasks[pk]
        types = ",".join(names[one] for one in task.gpu_types if one in names)
        code, reason = why(task, last.get(pk))
        yield [
            *(pk, task.task_flag, task.business.flag, task.user.get_username()),
            *(task.state, task.wanted_class, task.host_num, task.host_gpu_num, types),
            *(task.region.name if task.region else "", PRIORITIES[task.priority]),
            *map(csv_lines.time, (task.submitted_at, task.queued_at, task.ended_at)),
            *(code, reason),
        ]
