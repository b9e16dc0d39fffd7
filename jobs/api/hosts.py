"""Hosts for operators: what they are used for, and what happened to them."""

from typing import Any, cast

from django.contrib.auth.models import User
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import host_events, host_moves
from cluster.models import Host, HostEvent
from jobs import host_acts
from jobs.api import asking, queries, shapes
from jobs.api.authentication import operators_only
from jobs.api.described import described
from jobs.api.once import once
from jobs.config import Fault, Invalid
from jobs.services import Conflict
from quotas import access

KNOWN_FIELDS = frozenset({"reason", "Token"})


def _host(request: Request, pk: int) -> Host:
    """Return a host for an operator, or an auditor who looks; one that was removed is there for no one else."""
    all_of_them = access.sees_all(request.user)
    seen = Host.objects.all() if all_of_them else Host.objects.exclude(state=Host.State.REMOVED)
    host = get_object_or_404(seen, pk=pk)
    if request.method not in SAFE_METHODS or not all_of_them:
        operators_only(request)
    return host


class Steer(APIView):
    """One verb on one host."""

    verb = ""

    @described(
        parameters=[queries.KEY],
        request=shapes.body(shapes.WHY),
        responses=shapes.answers(200, shapes.HOST_STATE, 409),
    )
    @once
    def post(self, request: Request, pk: int) -> Response:
        """Say what a host is used for: cordon, uncordon, drain, remove, restore; `reason` says why."""
        host = _host(request, pk)
        reason = _reason(request.data, self.verb)
        try:
            host_acts.act(host, self.verb, by=cast(User, request.user), reason=reason)
        except host_moves.Refused as refused:
            raise Conflict(refused.code, refused.message) from refused
        host.refresh_from_db()
        state = "lost" if host.lost_since and host.state != Host.State.REMOVED else host.state
        why = host_events.reason(host.state_reason, host.state_args)
        return Response({"id": host.pk, "name": host.name, "state": state, "reason": why})


def _reason(document: Any, verb: str) -> str:
    """Return the reason that a body gives; raises Invalid."""
    if not isinstance(document, dict):
        raise Invalid([Fault("", "type", _('Write an object such as {"reason": "the fan is loud"}.'))])
    faults = [
        Fault(name, "unknown", _("There is no such field; known is reason."))
        for name in sorted(map(str, document))
        if name not in KNOWN_FIELDS
    ]
    given = document.get("reason")
    reason = given.strip() if isinstance(given, str) else ""
    if given is not None and not isinstance(given, str):
        faults.append(Fault("reason", "type", _("Write a text.")))
    elif fault := host_moves.fault_of(verb, reason):
        faults.append(Fault("reason", "value" if reason else "required", fault))
    if faults:
        raise Invalid(faults)
    return reason


class Events(APIView):
    """What happened to a host."""

    @described(parameters=queries.PAGE, responses=shapes.answers(200, shapes.page_of(shapes.HOST_EVENT)))
    def get(self, request: Request, pk: int) -> Response:
        """List what happened to a host, newest first: who, when and why."""
        names = ("id", "at", "code", "args", "reason", "actor__username", "old_state", "new_state")
        host = _host(request, pk)
        page = asking.page(request, HostEvent.objects.filter(host=host).values(*names))
        page["results"] = [_event(row) for row in page["results"]]
        return Response(page)


def _event(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("id", "at", "code", "reason")},
        "message": host_events.sentence(row["code"], row["args"]),
        "actor": row["actor__username"],
        "old_state": row["old_state"] or None,
        "new_state": row["new_state"] or None,
    }
