"""Templates and kept views of the list: what people start from, and what they come back to."""

from typing import Any

from django.db import transaction
from django.http import QueryDict
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import document as documents
from jobs import filter_words, kept_views, templates
from jobs.api import asking, bodies, queries, shapes
from jobs.api.described import described
from jobs.api.once import once
from jobs.api.tasks import caller
from jobs.config import Fault, Invalid
from jobs.models import SavedView, Template
from jobs.services import Conflict
from jobs.values import choice, known, text, unless_kept, wrong_type
from quotas import access, audit
from quotas.models import Business

ME, MEMBERS, ALL = "me", "members", "all"


def _config(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        wrong_type(value, _("an object, a config with some of its fields"))
    if faults := templates.faults(value):
        raise Invalid(faults)
    return documents.normalise(value).values


FIELDS = {
    "name": text(128),
    "description": text(255),
    "readers": choice(ME, MEMBERS, ALL),
    "business": known(64),
    "config": _config,
}
COLUMNS = ("id", "name", "description", "config", "user_id", "business__flag")


class Templates(APIView):
    """Templates."""

    @described(
        operation_id="templates_list",
        parameters=[*queries.PAGE, queries.ONLY],
        responses=shapes.answers(200, shapes.page_of(shapes.TEMPLATE)),
    )
    def get(self, request: Request) -> Response:
        """List the config documents offered to start from."""
        page = asking.page(
            request, Template.objects.visible_to(caller(request)).values(*COLUMNS), newest_first=False
        )
        page["results"] = _shown(request, page["results"])
        return Response(asking.picked(request, page, shapes.TEMPLATE))

    @described(
        parameters=[queries.KEY],
        request=shapes.body(shapes.TEMPLATE_BODY),
        responses=shapes.answers(201, shapes.TEMPLATE, 409),
    )
    @once
    def post(self, request: Request) -> Response:
        """Keep a document as a template, without the values of its secrets."""
        given = bodies.fields(request.data, FIELDS, required=("name", "config"))
        return Response(_one(request, _save(request, given, None)), status=201)


class OneTemplate(APIView):
    """One template."""

    @described(operation_id="templates_one", responses=shapes.answers(200, shapes.TEMPLATE))
    def get(self, request: Request, pk: int) -> Response:
        """Show a template."""
        return Response(_one(request, get_object_or_404(Template.objects.visible_to(caller(request)), pk=pk)))

    @described(request=shapes.body(shapes.TEMPLATE_BODY), responses=shapes.answers(200, shapes.TEMPLATE, 409))
    def put(self, request: Request, pk: int) -> Response:
        """Put a document, a name and readers in place of a template's."""
        over = get_object_or_404(Template.objects.changeable_by(caller(request)), pk=pk)
        kept = {name: unless_kept(getattr(over, name), FIELDS[name]) for name in ("name", "description")}
        given = bodies.fields(request.data, FIELDS | kept, required=("name", "config"))
        return Response(_one(request, _save(request, given, over)))

    @described(responses=shapes.answers_without_body())
    def delete(self, request: Request, pk: int) -> Response:
        """Remove a template for good."""
        template = get_object_or_404(Template.objects.changeable_by(caller(request)), pk=pk)
        with transaction.atomic():
            audit.note("template.removed", by=caller(request), on=template)
            template.delete()
        return Response(status=204)


def _save(request: Request, given: dict[str, Any], over: Template | None) -> Template:
    """Write a template of the caller, or over one of his; raises Invalid or Conflict."""
    user = caller(request)
    readers = given.get("readers", MEMBERS if given.get("business") else ME)
    business = _business(request, given, readers)
    owner = None if readers == ALL else user
    if templates.name_taken(user, given["name"], business, owner, over):
        message = _("There is a template of this name: choose another name, or open that one to change it.")
        raise Conflict("name_taken", message)
    if over is None:
        over = Template(user=owner)
    elif business is None:
        over.user = owner
    over.name, over.description, over.business = given["name"], given.get("description", ""), business
    over.config = given["config"]
    with transaction.atomic():
        over.save()
        audit.note("template.saved", by=user, on=over)
    return over


def _business(request: Request, given: dict[str, Any], readers: str) -> Business | None:
    """Return the business whose members are to see it, None where they are not who is meant; raises Invalid."""
    flag = given.get("business", "")
    if readers == ALL and not access.is_operator(request.user):
        raise Invalid([Fault("readers", "choice", _("Only operators make templates for all."))])
    if readers != MEMBERS:
        if flag:
            raise Invalid([Fault("business", "conflict", _('Leave it out, or write "readers": "members".'))])
        return None
    found = access.businesses_of(request.user).filter(flag=flag).first()
    if found is None:
        code = "unknown" if flag else "required"
        raise Invalid([Fault("business", code, _("Name a business of yours, whose members are to see it."))])
    return found


def _one(request: Request, template: Template) -> dict[str, Any]:
    (shown,) = _shown(request, Template.objects.filter(pk=template.pk).values(*COLUMNS))
    return shown


def _shown(request: Request, rows: Any) -> list[dict[str, Any]]:
    rows = list(rows)
    ids = [row["id"] for row in rows]
    mine = Template.objects.changeable_by(caller(request)).filter(pk__in=ids)
    changeable = set(mine.values_list("pk", flat=True))
    return [
        {
            **{name: row[name] for name in ("id", "name", "description", "config")},
            "readers": MEMBERS if row["business__flag"] else ME if row["user_id"] else ALL,
            "business": row["business__flag"],
            "changeable": row["id"] in changeable,
        }
        for row in rows
    ]


VIEW_FIELDS = {"name": known(kept_views.LONGEST_NAME), "query": known(kept_views.LONGEST_QUERY)}


class Views(APIView):
    """Filters that the caller kept."""

    @described(
        operation_id="views_list",
        parameters=queries.PAGE,
        responses=shapes.answers(200, shapes.page_of(shapes.VIEW)),
    )
    def get(self, request: Request) -> Response:
        """List the views of the list of tasks that the caller keeps; `query` goes behind tasks/?."""
        rows = SavedView.objects.filter(user=caller(request)).values("id", "name", "query")
        return Response(asking.page(request, rows, newest_first=False))

    @described(
        parameters=[queries.KEY],
        request=shapes.body(shapes.VIEW_BODY),
        responses=shapes.answers(201, shapes.VIEW, 409),
    )
    @once
    def post(self, request: Request) -> Response:
        """Keep filters under a name; a name that is there gets the new ones."""
        given = bodies.fields(request.data, VIEW_FIELDS, required=("name", "query"))
        filters = QueryDict(given["query"])
        _found, faults = filter_words.read(filters, caller(request))
        query = kept_views.plain(filters)
        fault = kept_views.fault(caller(request), given["name"], query)
        if faults or fault:
            raise Invalid([*faults, *([fault] if fault else [])])
        view = kept_views.keep(caller(request), given["name"], query)
        return Response({"id": view.pk, "name": view.name, "query": view.query}, status=201)


class OneView(APIView):
    """One of them."""

    @described(responses=shapes.answers_without_body())
    def delete(self, request: Request, pk: int) -> Response:
        """Remove a view of one's own."""
        kept_views.remove(caller(request), get_object_or_404(SavedView, pk=pk, user=caller(request)))
        return Response(status=204)
