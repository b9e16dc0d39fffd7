"""One form for all that goes wrong: {"errors": [{"field", "code", "message"}, …]}."""

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api.parsers import TooLarge
from jobs.config import Fault, Invalid
from jobs.services import Conflict


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """Answer an exception of a view; None (the server's own 500) for what nobody foresaw."""
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
            return _answer(error.status_code, _faults(error.detail), _headers(error))
    return None


class NotFound(APIView):
    """Whatever has no address here."""

    authentication_classes = ()
    permission_classes = ()
    schema = None

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Answer 404 whatever the method."""
        raise exceptions.NotFound


def _answer(status: int, faults: Iterable[Fault], headers: dict[str, str] | None = None) -> Response:
    rows = [{"field": fault.field, "code": fault.code, "message": fault.message} for fault in faults]
    return Response({"errors": rows}, status=status, headers=headers)


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(challenge)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(round(wait))
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
