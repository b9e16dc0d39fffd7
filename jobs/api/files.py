"""Files over HTTP: all tasks that match a filter, and what a business used, as CSV that is sent while it is read."""

from collections.abc import Iterable
from typing import Any

from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from jobs import filter_words, task_file, usage_file
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.tasks import caller
from jobs.config import Invalid
from quotas import access

DAYS, MOST_DAYS = 30, 3660
CSV: dict[Any, shapes.Shape] = {
    (200, "text/csv"): {"type": "string", "format": "binary"},
    (400, "application/json"): shapes.ERRORS,
}


class OneForm(BaseContentNegotiation):
    """A file comes in one form, whatever the caller would like better; what is refused comes in JSON."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        """Return the only one."""
        return next(iter(parsers), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Return the one for refusals."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type or ""


class TaskFile(APIView):
    """The list of tasks as a file."""

    content_negotiation_class = OneForm

    @described(operation_id="tasks_csv", parameters=queries.FILE_FILTERS, responses=CSV)
    def get(self, request: Request) -> HttpResponseBase:
        """Send all tasks that match, in the words and the order of the list; excel=1 marks the file for Excel."""
        filters, faults = filter_words.read(request.query_params, caller(request))
        if faults:
            raise Invalid(faults)
        return task_file.send(filters, for_excel=bool(asking.number(request, "excel", 0, 0, 1)))


class UsageFile(APIView):
    """The card-hours of a business as a file."""

    content_negotiation_class = OneForm

    @described(operation_id="businesses_usage", parameters=queries.USAGE_QUERY, responses=CSV)
    def get(self, request: Request, pk: int) -> HttpResponseBase:
        """Send what each attempt of the business used that ended in the last `days`, today among them.

        Who used it stands there for leads, operators and auditors, and for others where it was themselves.
        """
        business = get_object_or_404(access.businesses_seen_by(request.user), pk=pk)
        days = asking.number(request, "days", DAYS, 1, MOST_DAYS)
        excel = bool(asking.number(request, "excel", 0, 0, 1))
        return usage_file.send(business, days, to=caller(request), for_excel=excel)
