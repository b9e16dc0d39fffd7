"""One form for all that goes wrong: {"errors": [{"field", "code", "message"}, …]}."""

import logging
import math
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.core.signals import got_request_exception
from django.http import Http404
from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.parsers import TooLarge
from jobs.config import Fault, Invalid
from jobs.services import Conflict

log = logging.getLogger(__name__)
CSRF = "CSRF Failed"  # begins what the framework says of it, in English alone


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """Answer an exception of a view, in the one form also what nobody foresaw: its trace stands in the log."""
    match error:
        case Invalid():
            return _answer(400, error.faults)
        case Conflict():
            return _answer(409, [Fault("", error.code, error.message)])
        case Http404():
            return handle(exceptions.NotFound(), context)
        case PermissionDenied():
            return handle(exceptions.PermissionDenied(*error.args), context)
        case RequestDataTooBig():
            return handle(TooLarge(), context)
        case exceptions.APIException():
            return _answer(error.status_code, _with_way_out(error), _headers(error))
    got_request_exception.send(
        sender=None, request=context["request"]
    )  # for tests, and whoever collects faults
    log.error("a call of the API failed: %s", context["request"].path, exc_info=error)
    message = _("The platform could not do this; its log says why. Try again, or ask its operators.")
    return _answer(500, [Fault("", "error", message)])


class NotFound(APIView):
    """Whatever has no address here."""

    authentication_classes = ()
    permission_classes = ()
    schema = None

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Answer 404 whatever the method."""
        raise exceptions.NotFound


def _with_way_out(error: exceptions.APIException) -> list[Fault]:
    """Return the faults; what the framework says without a way out is followed by one."""
    match error:
        case exceptions.NotAuthenticated():
            way = _("Send your API token in the header “Authorization: Token …”.")
        case exceptions.NotFound():
            # The same for what is not there and what is not his: nobody learns what else is here.
            said = _("It is not there, or not yours to see.")
            return [Fault("", error.default_code, said)]
        case exceptions.UnsupportedMediaType():
            way = _("Send JSON, and say so in the header “Content-Type: application/json”.")
        case exceptions.PermissionDenied() if str(error.detail).startswith(CSRF):
            said = _(
                "A page that writes sends Django's CSRF token in the header X-CSRFToken; a program sends its API token "
                "in the header “Authorization: Token …”."
            )
            return [Fault("", error.default_code, said)]
        case _other:
            return _faults(error.detail)
    return [Fault(fault.field, fault.code, f"{fault.message} {way}") for fault in _faults(error.detail)]


def _answer(status: int, faults: Iterable[Fault], headers: dict[str, str] | None = None) -> Response:
    rows = [{"field": fault.field, "code": fault.code, "message": fault.message} for fault in faults]
    return Response({"errors": rows}, status=status, headers=headers)


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(challenge)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return headers


def _faults(detail: Any, field: str = "") -> list[Fault]:
    """Flatten the framework's detail: a text with a code, or lists and objects of them by field."""
    if isinstance(detail, dict):
        return [
            fault for name, inner in detail.items() for fault in _faults(inner, f"{field}.{name}".strip("."))
        ]
    if isinstance(detail, list):
        return [fault for inner in detail for fault in _faults(inner, field)]
    return [Fault(field, getattr(detail, "code", "error"), str(detail))]
