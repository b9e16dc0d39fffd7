"""The log of a task page by page, for browsers that run no scripts."""

import re
from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from cluster import logs
from cluster.models import Instance
from jobs.models import Task
from jobs.portal.doors import PortalRequest, page

PAGE = 64 * 1024  # bytes
# Colours, and titles of a terminal. One that is never ended takes nothing of the next line with it, and many of
# them do not each read the page to its end.
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}  # ␀ in place of NUL


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A part of a log: whole lines where they are not too long."""

    text: str
    first: int
    end: int
    log_end: int

    @property
    def earlier(self) -> int | None:
        """Return the end of the page before this one."""
        return self.first or None

    @property
    def later(self) -> int | None:
        """Return the end of the page behind this one."""
        return min(self.end + PAGE, self.log_end) if self.end < self.log_end else None


@page
@require_safe
def log(request: PortalRequest, pk: int) -> HttpResponse:
    """Show the end of a member's log, or what stands before the byte `until`."""
    task = get_object_or_404(Task.objects.visible_to(request.user), pk=pk)
    attempt = task.attempts.order_by("-number")
    number, rank = _number(request, "attempt"), _number(request, "rank") or 0
    chosen = (attempt.filter(number=number) if number else attempt).first()
    member = (
        Instance.objects.filter(gang=chosen.pk, rank=rank).select_related("host").first() if chosen else None
    )
    if member is None and (number or rank):
        raise Http404
    context = {
        "task": task,
        "attempt": chosen,
        "member": member,
        "leaf": _leaf(member, _number(request, "until")) if member else None,
    }
    return render(request, "log.html", context)


def _number(request: PortalRequest, name: str) -> int | None:
    given = request.GET.get(name, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else None


def _leaf(member: Instance, until: int | None) -> Leaf:
    log_end = logs.end_of(member.pk)
    end = min(log_end, until or log_end)
    first = max(0, end - PAGE)
    data, _end = logs.read(member.pk, first, end - first)
    if first and (cut := data.find(b"\n") + 1) and cut < len(data):
        first, data = first + cut, data[cut:]
    return Leaf(text=plain(data), first=first, end=end, log_end=log_end)


def plain(data: bytes) -> str:
    """Return what a terminal would show, without colours; of a progress bar its last state."""
    lines = (_decoded(line).rstrip("\r").rpartition("\r")[2] for line in ESCAPES.sub(b"", data).split(b"\n"))
    return "\n".join(lines).translate(PICTURES)


def _decoded(line: bytes) -> str:
    """Return a line as text; one that is not UTF-8 may be Chinese of older programs."""
    for encoding in ("utf-8", "gb18030"):
        try:
            return line.decode(encoding)
        except UnicodeDecodeError:
            pass
    return line.decode(errors="replace")
