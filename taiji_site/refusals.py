"""What is refused before any view sees it, such as a wrong Host header: the API's callers get the form they know."""

import re
from typing import Any

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.utils.translation import gettext as _
from django.views import defaults

# A name as headers have it; whatever else came is not said again.
HOST = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,255}")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer 400: with JSON below /api/, else with the page."""
    if not request.path.startswith("/api/"):
        return defaults.bad_request(request, exception)
    return _answer(400, *_fault(request, exception))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Answer 404: with JSON below /api/, else with the page."""
    if not request.path.startswith("/api/"):
        return defaults.page_not_found(request, exception)
    message = _("There is nothing at this address; the API begins with %s.") % "/api/v1/"
    return _answer(404, "", "not_found", message)


def _fault(request: HttpRequest, exception: Exception) -> tuple[str, str, str]:
    """Return field, code and message."""
    if isinstance(exception, DisallowedHost):
        given = request.META.get("HTTP_HOST", "")
        host = given if HOST.fullmatch(given) else "?"
        message = _(
            "The platform is not called %(host)s: use one of its names, or have its operators add this one to "
            "TAIJI_ALLOWED_HOSTS."
        )
        return "Host", "host", message % {"host": host}
    return "", "malformed", _("This request cannot be read.")


def _answer(status: int, field: str, code: str, message: str) -> JsonResponse:
    said: dict[str, Any] = {"errors": [{"field": field, "code": code, "message": message}]}
    return JsonResponse(said, status=status)
