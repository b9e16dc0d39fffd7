"""The door to and from the company's identity provider."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from urllib.parse import urlencode

import jwt
import requests
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from quotas import audit, oidc

log = logging.getLogger(__name__)
View = Callable[[HttpRequest], HttpResponseBase]
FAULTS = (
    *(oidc.Unusable, SuspiciousOperation, requests.RequestException, jwt.PyJWTError, ValueError, KeyError),
    IntegrityError,  # others changed something at that moment; the provider's code serves once: no second try
)
ID_TOKEN = "oidc_id_token"  # in the session, by the library


class _Settings:
    @staticmethod
    def get_settings(attr: str, *args: Any) -> Any:
        """Return a setting of the library."""
        return oidc.setting(attr, *args)


class _Begin(_Settings, OIDCAuthenticationRequestView):  # type: ignore[misc]  # untyped
    """Lead to the provider, with a state and a nonce that the session keeps."""


class _Back(_Settings, OIDCAuthenticationCallbackView):  # type: ignore[misc]  # untyped
    """Take who comes back from it."""

    def login_success(self) -> HttpResponseBase:
        """Log in, and write that down."""
        with transaction.atomic():
            answer = super().login_success()
            audit.note("login", by=cast(User, self.user), name="", by_provider=True)
        return cast(HttpResponseBase, answer)

    def login_failure(self) -> HttpResponseBase:
        """Say that it did not work."""
        return _failed(self.request, "the provider or the platform refused")


def _careful(view: View) -> View:
    """Answer with a page whatever the provider says, and with none where there is no provider."""

    @never_cache
    @wraps(view)
    def enter(request: HttpRequest) -> HttpResponseBase:
        if not oidc.is_on():
            raise Http404
        try:
            return view(request)
        except FAULTS as fault:
            return _failed(request, type(fault).__name__, fault)

    return enter


@_careful
def begin(request: HttpRequest) -> HttpResponseBase:
    """Lead to the provider."""
    return cast(HttpResponseBase, _Begin.as_view()(request))


@_careful
def back(request: HttpRequest) -> HttpResponseBase:
    """Take who comes back; an error that is said in the address logs nobody out, for anybody can say it."""
    if request.GET.get("error"):
        return _failed(request, "the provider refused")
    return cast(HttpResponseBase, _Back.as_view()(request))


def _failed(request: HttpRequest, why: str, fault: Exception | None = None) -> HttpResponseBase:
    # The texts of faults may hold codes and tokens of the provider: only our own go to the log.
    own = str(fault) if isinstance(fault, oidc.Unusable | SuspiciousOperation) else ""
    log.warning("no login by the provider: %s", ": ".join(filter(None, (why, own))))
    audit.note("login.failed", by=None, name="", by_provider=True, why=why)
    messages.error(
        request,
        _("The login with the company's account did not work. Try again; if it goes on, ask the operators."),
    )
    return redirect("login")


def leave(id_token: str, request: HttpRequest) -> HttpResponseBase:
    """Send who logged out here to the provider, which ends its own session and sends him back."""
    address = oidc.logout_address() if id_token and oidc.is_on() else ""
    if not address:
        return redirect("login")
    query = {
        "client_id": settings.OIDC_RP_CLIENT_ID,
        "id_token_hint": id_token,
        "post_logout_redirect_uri": request.build_absolute_uri(reverse("login")),
    }
    return HttpResponseRedirect(f"{address}?{urlencode(query)}")
