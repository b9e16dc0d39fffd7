"""Tasks over HTTP: submit, look, steer."""

from collections.abc import Mapping
from typing import Any, cast

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import services
from jobs.api import asking, rows, shapes
from jobs.config import Fault, Invalid
from jobs.engine import ask
from jobs.models import Task, TaskClass
from jobs.states import State
from quotas import access

LONGEST_KEY = 255


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

    @extend_schema(
        operation_id="tasks_list",
        parameters=shapes.FILTERS,
        responses=shapes.answers(200, shapes.page_of(shapes.TASK)),
    )
    def get(self, request: Request) -> Response:
        """List tasks, newest first."""
        page = asking.page(request, rows.columns(_filtered(request)))
        page["results"] = rows.shown(request, page["results"])
        return Response(page)

    @extend_schema(
        parameters=[shapes.ORIGIN, shapes.KEY],
        request=shapes.body(shapes.CONFIG),
        responses=shapes.answers(201, shapes.TASK, 409),
    )
    def post(self, request: Request) -> Response:
        """Submit a task: all of it, or all its faults."""
        key = request.headers.get("Idempotency-Key", "").strip()
        if len(key) > LONGEST_KEY or not key.isprintable():
            message = _("Write at most %d printable characters.") % LONGEST_KEY
            raise Invalid([Fault("Idempotency-Key", "length", message)])
        origin = asking.number(request, "origin", 0)
        task = services.submit(
            caller(request),
            document(request),
            origin=visible(request, origin) if origin else None,
            idempotency_key=key or None,
        )
        return Response(rows.one(request, task.pk), status=201)


def _filtered(request: Request) -> QuerySet[Task]:
    """Return the visible tasks that the query asks for, by keys the indexes know."""
    tasks = Task.objects.all()
    mine = dict(access.businesses_of(request.user).values_list("flag", "id"))
    business = asking.text(request, "business")
    if business:
        tasks = tasks.filter(business=mine.get(business, 0))
    elif not access.is_operator(request.user):
        tasks = tasks.filter(business__in=mine.values())
    if states := asking.words(request, "state", [state.value for state in State]):
        tasks = tasks.filter(state__in=states)
    if classes := asking.words(request, "class", TaskClass.values):
        tasks = tasks.filter(wanted_class__in=classes)
    user = asking.text(request, "user")
    if user == "me":
        return tasks.filter(user=caller(request))
    return tasks.filter(user__username=user) if user else tasks


class Preview(APIView):
    """What would become of a document, without submitting it."""

    @extend_schema(request=shapes.body(shapes.CONFIG), responses=shapes.answers(200, shapes.PREVIEW))
    def post(self, request: Request) -> Response:
        """Say whether it would start now, after evicting, later or never."""
        return Response(ask.preview(caller(request), document(request)))


class OneTask(APIView):
    """One task."""

    @extend_schema(responses=shapes.answers(200, shapes.DETAIL))
    def get(self, request: Request, pk: int) -> Response:
        """Show a task with its config, reason and attempts."""
        return Response(rows.detail(request, visible(request, pk)))


class Steer(APIView):
    """One verb on one task."""

    verb = ""

    @extend_schema(request=shapes.body(shapes.TOKEN_ONLY), responses=shapes.answers(200, shapes.TASK, 409))
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

    @extend_schema(request=shapes.body(shapes.TOKEN_ONLY), responses=shapes.answers(201, shapes.TASK, 409))
    def post(self, request: Request, pk: int) -> Response:
        """Submit the config of an ended task as a new task of the caller, linked to the old."""
        task = services.retry(visible(request, pk), caller(request))
        return Response(rows.one(request, task.pk), status=201)
