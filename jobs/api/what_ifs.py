"""What would have been, over HTTP: asked, followed, called off and made by operators; auditors look."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import host_moves
from jobs import what_if_words
from jobs.api import asking, queries, shapes, what_if_bodies, what_if_shapes
from jobs.api.authentication import operators_only
from jobs.api.described import described
from jobs.api.once import once
from jobs.api.tasks import caller
from jobs.engine import what_if_base, what_ifs
from jobs.services import Conflict
from jobs.simulation.what_if import Change, from_json
from jobs.what_if_words import Names
from jobs.what_ifs import WhatIf
from quotas import access

PLAIN = ("id", "days", "state", "done", "ended_at", "applied_at", "applied_why")
COLUMNS = (*PLAIN, "made_at", "beat_at", "user__username", "applied_by__username", "change", "base", "fault")


class WhatIfs(APIView):
    """Questions what would have been."""

    @described(
        operation_id="what_ifs_list",
        parameters=queries.PAGE,
        responses=shapes.answers(200, what_if_shapes.WHAT_IFS),
    )
    def get(self, request: Request) -> Response:
        """List what was asked, newest first, for operators and auditors."""
        _oversee(request)
        page = asking.page(request, WhatIf.objects.values(*COLUMNS))
        names = Names(from_json(row["change"]) for row in page["results"])
        page["results"] = [_shown(row, names) for row in page["results"]]
        return Response(page)

    @described(
        operation_id="what_ifs_ask",
        parameters=[queries.KEY],
        request=shapes.body(what_if_shapes.BODY),
        responses=shapes.answers(201, what_if_shapes.ANSWERED),
    )
    @once
    def post(self, request: Request) -> Response:
        """Ask what would have been, had quotas, the policy or hosts been others; operators alone.

        The tasks of the last `days` are run again, in fast motion, without the change and with it. `policy`: null is a
        key's default. `added`: hosts that would be bought. `cordon`, `remove`: names of hosts that are taken out.
        """
        _operate(request)
        days, change = what_if_bodies.question(request.data)
        return Response(_one(what_ifs.ask(caller(request), days, change).pk), status=201)


class OneWhatIf(APIView):
    """One of them."""

    @described(operation_id="what_ifs_one", responses=shapes.answers(200, what_if_shapes.ANSWERED))
    def get(self, request: Request, pk: int) -> Response:
        """Show how far the answer is (`done`, in percent), or what it is (`result`)."""
        _oversee(request)
        return Response(_one(pk))


class CallOff(APIView):
    """The end of one whose answer is still to come."""

    @described(
        operation_id="what_ifs_call_off",
        parameters=[queries.KEY],
        request=shapes.body(shapes.TOKEN_ONLY),
        responses=shapes.answers(200, what_if_shapes.ANSWERED, 409),
    )
    @once
    def post(self, request: Request, pk: int) -> Response:
        """Call a question off whose answer is still to come; operators alone."""
        _operate(request)
        asked = get_object_or_404(WhatIf, pk=pk)
        if not what_ifs.call_off(asked, caller(request)):
            raise Conflict("already_over", _("It was over already."))
        return Response(_one(pk))


class Apply(APIView):
    """The change itself."""

    @described(
        operation_id="what_ifs_apply",
        parameters=[queries.KEY],
        request=shapes.body(what_if_shapes.REASON_BODY),
        responses=shapes.answers(200, what_if_shapes.ANSWERED, 409),
    )
    @once
    def post(self, request: Request, pk: int) -> Response:
        """Make the change that was tried, with a reason, unless what it was tried against is not so any more."""
        _operate(request)
        asked = get_object_or_404(WhatIf, pk=pk)
        _apply(request, asked, what_if_bodies.reason(request.data))
        return Response(_one(pk))


def _oversee(request: Request) -> None:
    """Let those in who see all; for others there is none of it."""
    if not access.sees_all(request.user):
        raise Http404


def _operate(request: Request) -> None:
    _oversee(request)
    operators_only(request)


def _apply(request: Request, asked: WhatIf, reason: str) -> None:
    """Make the change; raises Conflict with what keeps it from being made."""
    change = from_json(asked.change)
    if not (change.quotas or change.policy or change.hosts):
        said = _("Hosts that would be bought. They can only be tried: real ones register themselves.")
        raise Conflict("wrong_state", said)
    try:
        what_ifs.apply(asked, caller(request), reason)
    except what_ifs.NotToMake as error:
        said = _("Only a change that was tried to the end, and not made yet, can be made.")
        raise Conflict("wrong_state", said) from error
    except what_if_base.Changed as error:
        said = _("Nothing was changed: this was tried against what is not so any more. Ask again.")
        what = what_if_words.what_changed(error.what, change, Names([change]))
        raise Conflict("changed", " ".join([said, *what])) from error
    except host_moves.Refused as error:
        raise Conflict(error.code, error.message) from error


def _one(pk: int) -> dict[str, Any]:
    row = get_object_or_404(WhatIf.objects.values(*COLUMNS, "result"), pk=pk)
    return _shown(row, Names([from_json(row["change"])])) | {"result": _result(row["result"])}


def _shown(row: Mapping[str, Any], names: Names) -> dict[str, Any]:
    change, fault = from_json(row["change"]), row["fault"]
    steps = what_if_words.steps(change, row["base"], names)
    said = str(what_if_words.FAULTS.get(fault, fault))
    return {
        **{name: row[name] for name in PLAIN},
        "asked_at": row["made_at"],
        "heard_at": row["beat_at"],
        "user": row["user__username"],
        "applied_by": row["applied_by__username"],
        "change": _by_name(change, names),
        "steps": [{"what": step.what, "then": step.then, "new": step.new} for step in steps],
        "fault": {"code": fault, "message": said} if fault else None,
    }


def _by_name(change: Change, names: Names) -> dict[str, Any]:
    """Return the change as it may be asked again; what is there no more is called `?`."""
    return {
        "quotas": [
            {
                "business": names.businesses.get(row.business, "?"),
                "gpu_type": names.types.get(row.gpu_type, "?"),
                "region": None if row.region is None else names.regions.get(row.region, "?"),
                "cards": row.cards,
            }
            for row in change.quotas
        ],
        "policy": dict(change.policy),
        "added": [
            {
                "region": names.regions.get(row.region, "?"),
                "gpu_type": names.types.get(row.gpu_type, "?"),
                "hosts": row.hosts,
                "cards": row.cards,
            }
            for row in change.added
        ],
        **{
            verb: [names.hosts.get(row.host, "?") for row in change.hosts if row.verb == verb]
            for verb in what_if_bodies.VERBS
        },
    }


def _result(kept: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**kept, "since": datetime.fromtimestamp(kept["since"], UTC)} if kept else None
