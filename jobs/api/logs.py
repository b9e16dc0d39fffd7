"""What a member of an attempt printed, from any byte on."""

import uuid

from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from cluster import logs
from cluster.models import Instance
from jobs.api import asking, shapes
from jobs.api.tasks import visible
from jobs.models import Task

AT_ONCE = 1024 * 1024  # bytes; more is sent piece by piece


class Log(APIView):
    """The log of one member."""

    @extend_schema(
        parameters=shapes.LOG_QUERY, responses={(200, "text/plain"): {"type": "string", "format": "binary"}}
    )
    def get(self, request: Request, pk: int) -> HttpResponseBase:
        """Send the bytes from `offset` on; X-Log-End says where they end. download=1 makes it a file."""
        task = visible(request, pk)
        instance = _instance(request, task)
        offset = asking.number(request, "offset", 0)
        end = max(offset, logs.end_of(instance)) if instance else offset
        response = _bytes(instance, offset, end) if instance else HttpResponse()
        response["Content-Type"] = "text/plain; charset=utf-8"
        response["X-Content-Type-Options"] = "nosniff"  # it is what a process printed: never a page
        response["X-Log-End"] = str(end)
        if asking.number(request, "download", 0, 0, 1):
            response["Content-Disposition"] = f'attachment; filename="task-{task.pk}.log"'
        return response


def _bytes(instance: uuid.UUID, offset: int, end: int) -> HttpResponseBase:
    if end - offset <= AT_ONCE:
        data, _end = logs.read(instance, offset, end - offset)
        return HttpResponse(data)
    response = StreamingHttpResponse(logs.stream(instance, offset, end))
    response["Content-Length"] = str(end - offset)
    return response


def _instance(request: Request, task: Task) -> uuid.UUID | None:
    """Return the member asked for, by default rank 0 of the last attempt; None where nothing ran yet."""
    asked = asking.number(request, "attempt", 0)
    attempts = task.attempts.filter(number=asked) if asked else task.attempts.order_by("-number")
    attempt = attempts.first()
    rank = asking.number(request, "rank", 0)
    if attempt is None:
        if asked or rank:
            raise Http404
        return None
    found = Instance.objects.filter(gang=attempt.pk, rank=rank).first()
    if found is None:
        raise Http404
    return found.pk
