"""What a member of an attempt printed, from any byte on."""

import re
import uuid
from dataclasses import dataclass

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import logs
from cluster.models import Instance
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.tasks import visible
from jobs.config import Fault, Invalid
from jobs.models import Task

MOST_SIGNS = 200  # of what is searched for
AT_ONCE = 1024 * 1024  # bytes; more is sent piece by piece
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
HEADERS = {
    "Content-Type": "text/plain; charset=utf-8",
    "X-Content-Type-Options": "nosniff",  # it is what a process printed: never a page
    "Accept-Ranges": "bytes",
}


class Removed(APIException):
    """The log was old, and there is none any more."""

    status_code = 410
    default_code = "removed"


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes `first` up to `end` of a log, which itself ends at `log_end`."""

    first: int
    end: int
    log_end: int
    ranged: bool = False  # asked for by a Range header


class Log(APIView):
    """The log of one member."""

    @described(
        parameters=queries.LOG_QUERY,
        responses={
            (200, "text/plain"): {"type": "string", "format": "binary"},
            (206, "text/plain"): {"type": "string", "format": "binary"},
            (410, "application/json"): shapes.ERRORS,
        },
    )
    def get(self, request: Request, pk: int) -> HttpResponseBase:
        """Send the bytes from `offset` on; X-Log-End says where they end. download=1 makes it a file.

        `wait` waits for bytes that are not there yet; none, and the attempt has ended: there come no more.
        Without `offset` one Range of bytes is sent as well, as 206. 410: the log was old and is removed.
        """
        asking.waited(request)
        task = visible(request, pk)
        member = _member(request, task)
        part = _part(request, logs.end_of(member.pk) if member else 0)
        response = _answer(member.pk if member else None, part)
        if asking.number(request, "download", 0, 0, 1):
            response["Content-Disposition"] = f'attachment; filename="task-{task.pk}.log"'
        return response


class Search(APIView):
    """Lines of a member's log that hold some words."""

    @described(parameters=queries.SEARCH_QUERY, responses=shapes.answers(200, shapes.LOG_FOUND, 410))
    def get(self, request: Request, pk: int) -> Response:
        """Find the lines from `offset` on; a search reads 64 MiB and finds 100 lines at most.

        `next` says where to search on; null: all was searched.
        """
        asking.single(request, "q")
        words = request.query_params.get("q", "")  # with its blanks
        if not 0 < len(words) <= MOST_SIGNS:
            message = _("Write what to search for, in at most %(most)d signs.") % {"most": MOST_SIGNS}
            raise Invalid([Fault("q", "length", message)])
        member = _member(request, visible(request, pk))
        offset = asking.number(request, "offset", 0)
        found, further = logs.find(member.pk, words.encode(), offset) if member else ([], None)
        hits = [{"offset": place, "line": line.decode(errors="replace")} for place, line in found]
        return Response({"hits": hits, "next": further})


def _part(request: Request, log_end: int) -> Part | None:
    """Return what is asked for of a log that ends at `log_end`; None: a Range that lies behind its end."""
    offset = asking.number(request, "offset", 0)
    asked = (
        RANGE.fullmatch(request.headers.get("Range", "")) if "offset" not in request.query_params else None
    )
    if asked is None or asked.groups() == ("", ""):  # none, or a form that may be passed over
        end = max(offset, log_end)
        return Part(offset, min(end, offset + (asking.number(request, "limit", 0) or end)), end)
    first, last = asked.groups()
    if not first:  # the last so many bytes
        return Part(max(0, log_end - int(last)), log_end, log_end, True) if int(last) and log_end else None
    end = min(log_end, int(last) + 1) if last else log_end
    if last and int(last) < int(first):
        return Part(0, log_end, log_end)
    return Part(int(first), end, log_end, True) if int(first) < log_end else None


def _answer(instance: uuid.UUID | None, part: Part | None) -> HttpResponseBase:
    if part is None:
        end = logs.end_of(instance) if instance else 0
        return HttpResponse(status=416, headers={**HEADERS, "Content-Range": f"bytes */{end}"})
    response = _bytes(instance, part.first, part.end) if instance else HttpResponse()
    for name, value in HEADERS.items():
        response[name] = value
    response["X-Log-End"] = str(part.log_end)
    if part.ranged:
        response.status_code = 206
        response["Content-Range"] = f"bytes {part.first}-{part.end - 1}/{part.log_end}"
    return response


def _bytes(instance: uuid.UUID, offset: int, end: int) -> HttpResponseBase:
    if end - offset <= AT_ONCE:
        data, _end = logs.read(instance, offset, end - offset)
        return HttpResponse(data)
    response = StreamingHttpResponse(logs.stream(instance, offset, end))
    response["Content-Length"] = str(end - offset)
    return response


def _member(request: Request, task: Task) -> Instance | None:
    """Return the member asked for, by default rank 0 of the last attempt; None where nothing ran yet."""
    asked = asking.number(request, "attempt", 0)
    attempts = task.attempts.filter(number=asked) if asked else task.attempts.order_by("-number")
    attempt = attempts.first()
    rank = asking.number(request, "rank", 0)
    if attempt is None:
        if asked or rank:
            raise Http404
        return None
    found = Instance.objects.filter(gang=attempt.pk, rank=rank).only("id", "log_removed_at").first()
    if found is None:
        raise Http404
    if found.log_removed_at is not None:
        on = date_format(localtime(found.log_removed_at), "Y-m-d")
        raise Removed(_("This log was old and was removed on %(date)s.") % {"date": on})
    return found
