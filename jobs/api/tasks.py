"""Tasks over HTTP: submit, look, steer."""

from collections.abc import Mapping
from typing import Any, cast

from django.contrib.auth.models import User
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import filter_words, pages, services
from jobs.api import asking, queries, rows, shapes, verdicts
from jobs.api.described import described
from jobs.api.once import once
from jobs.config import Fault, Invalid
from jobs.engine import ask
from jobs.models import Task
from jobs.pages import Key
from quotas import access
from quotas.tokens import Scope


def caller(request: Request) -> User:
    """Return who asks; the permission classes let nobody else in."""
    return cast(User, request.user)


def document(request: Request) -> Mapping[str, Any]:
    """Return the body; what is no object is refused where its fields are read."""
    return cast(Mapping[str, Any], request.data)


def visible(request: Request, pk: int) -> Task:
    """Return a task that the caller may see; the others do not exist for him."""
    return get_object_or_404(Task.objects.visible_to(request.user), pk=pk)


class Tasks(APIView):
    """The list of tasks, and the door for new ones."""

    scopes = {"POST": Scope.SUBMIT}

    @described(
        operation_id="tasks_list",
        parameters=queries.FILTERS,
        responses=shapes.answers(200, shapes.page_of(shapes.TASK)),
    )
    def get(self, request: Request) -> Response:
        """List tasks, newest first unless `sort` says otherwise."""
        filters, faults = filter_words.read(request.query_params, caller(request))
        if faults:
            raise Invalid(faults)
        limit = asking.number(request, "limit", asking.PAGE, 1, asking.LONGEST_PAGE)
        found = pages.cut(filters, below=_cursor(request, filters.order), size=limit)
        page = {
            "results": rows.many(request, found.ids),
            "next": asking.following(request, found.below) if found.below else None,
        }
        return Response(asking.picked(request, page, shapes.TASK))

    @described(
        parameters=[queries.ORIGIN, queries.KEY],
        request=shapes.body(shapes.CONFIG),
        responses=shapes.answers(201, shapes.TASK, 409),
    )
    @once
    def post(self, request: Request) -> Response:
        """Submit a task: all of it, or all its faults."""
        origin = asking.number(request, "origin", 0)
        task = services.submit(
            caller(request),
            document(request),
            origin=visible(request, origin) if origin else None,
        )
        return Response(rows.just_made(request, task), status=201)


def _cursor(request: Request, order: str) -> Key | None:
    given = asking.single(request, "cursor")
    found = pages.key(given, order) if given else None
    if given and found is None:
        raise Invalid([Fault("cursor", "cursor", _("Take it from `next`, with the `sort` it was made for."))])
    return found


class Preview(APIView):
    """What would become of a document, without submitting it."""

    scopes = {"POST": Scope.READ}

    @described(
        parameters=[queries.ALTERNATIVES],
        request=shapes.body(shapes.CONFIG),
        responses=shapes.answers(200, verdicts.VERDICT),
    )
    def post(self, request: Request) -> Response:
        """Say whether it would start now, after evicting, later or never; on demand also what else would start."""
        also = bool(asking.number(request, "alternatives", 0, 0, 1))
        return Response(verdicts.shown(ask.preview(caller(request), document(request), alternatives=also)))


class OneTask(APIView):
    """One task."""

    @described(
        operation_id="tasks_one", parameters=[queries.ONLY], responses=shapes.answers(200, shapes.DETAIL)
    )
    def get(self, request: Request, pk: int) -> Response:
        """Show a task with its config, reason and attempts."""
        wanted = asking.only(request, shapes.DETAIL)
        return Response(asking.pick(rows.detail(request, visible(request, pk)), wanted))


class Steer(APIView):
    """One verb on one task."""

    scopes = {"POST": Scope.SUBMIT}
    verb = ""

    @described(
        parameters=[queries.KEY],
        request=shapes.body(shapes.TOKEN_ONLY),
        responses=shapes.answers(200, shapes.TASK, 409),
    )
    @once
    def post(self, request: Request, pk: int) -> Response:
        """Stop, hold or release a task, or end its kept place."""
        task = visible(request, pk)
        user = caller(request)
        if not access.may_steer(user, task.business_id, task.user_id):
            raise PermissionDenied(_("Only its owner, a lead of its business or an operator may do this."))
        services.STEERING[self.verb](task, user)
        return Response(rows.one(request, task.pk))


class Retry(APIView):
    """An ended task once more."""

    scopes = {"POST": Scope.SUBMIT}

    @described(
        parameters=[queries.KEY],
        request=shapes.body(shapes.TOKEN_ONLY),
        responses=shapes.answers(201, shapes.TASK, 409),
    )
    @once
    def post(self, request: Request, pk: int) -> Response:
        """Submit the config of an ended task as a new task of the caller, linked to the old."""
        task = services.retry(visible(request, pk), caller(request))
        return Response(rows.just_made(request, task), status=201)
