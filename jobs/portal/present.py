"""Who asks for a part of a live page is known by then: all that is read is whether he is still the same."""

from copy import copy

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

from jobs.portal.readers import Reader
from quotas import still_in

IN_SCOPE = "taiji.reader"


class Authentication(AuthenticationMiddleware):
    """Django's own, that spares it the session and the user of a reader who is known (parts.py)."""

    def process_request(self, request: HttpRequest) -> None:
        """Say who asks: the user as he was read, where session and rights are what they were then."""
        super().process_request(request)
        reader = _reader(request)
        if reader and still_in.is_as_read(reader.user, request.session.session_key or ""):
            request.user = copy(reader.user)  # of this request alone: permissions are kept with a user

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Say that the answer depends on who asks, as it does where the session was read."""
        if _reader(request):
            patch_vary_headers(response, ("Cookie",))
        return response


def _reader(request: HttpRequest) -> Reader | None:
    found: Reader | None = getattr(request, "scope", {}).get(IN_SCOPE)
    return found
