"""The audit over HTTP: who did what from where, searched as on its page, for those who see all."""

from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import audit_search
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.files import CSV, OneForm
from jobs.api.tasks import caller
from quotas import access

TIMES = ("since", "until")
TEXTS = tuple(name for name in audit_search.COLUMNS if name not in TIMES)
COLUMNS = (
    *("id", "at", "actor", "actor_id", "deed", "kind", "target_id", "target", "address", "agent"),
    *("token_id", "args"),
)


class Audit(APIView):
    """What was done."""

    @described(
        operation_id="audit_list",
        parameters=[*queries.AUDIT_FILTERS, *queries.PAGE, queries.ONLY],
        responses=shapes.answers(200, shapes.page_of(shapes.AUDIT_ENTRY)),
    )
    def get(self, request: Request) -> Response:
        """List what was done, newest first, for operators and auditors; all filters that are given have to fit."""
        _oversee(request)
        page = asking.page(request, audit_search.found(_wanted(request)).values(*COLUMNS))
        page["results"] = [_shown(row) for row in page["results"]]
        return Response(asking.picked(request, page, shapes.AUDIT_ENTRY))


class AuditFile(APIView):
    """The same as a file."""

    content_negotiation_class = OneForm

    @described(operation_id="audit_csv", parameters=queries.AUDIT_FILE, responses=CSV)
    def get(self, request: Request) -> HttpResponseBase:
        """Send all that matches; that it was taken, and with which filters, stands in the audit too."""
        _oversee(request)
        wanted = _wanted(request)
        excel = bool(asking.number(request, "excel", 0, 0, 1))
        asked = {name: str(value) for name, value in wanted.items() if value}
        return audit_search.send(wanted, by=caller(request), asked=asked, for_excel=excel)


def _oversee(request: Request) -> None:
    """Let those in who see all; for others it does not exist."""
    if not access.sees_all(request.user):
        raise Http404


def _wanted(request: Request) -> dict[str, Any]:
    """Return what is looked for; raises Invalid."""
    texts = {name: asking.text(request, name) for name in TEXTS}
    return texts | {name: asking.moment(request, name) for name in TIMES}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in COLUMNS if name not in {"actor", "actor_id"}},
        "user": row["actor"],
        "user_id": row["actor_id"],
    }
