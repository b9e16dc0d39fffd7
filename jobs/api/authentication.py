"""Who calls, and how far a token goes: from the header `Authorization: Token …` or from `Token` in the body."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, ErrorDetail, PermissionDenied, ValidationError
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from cluster import clock
from quotas import access, origin
from quotas.models import ApiToken
from quotas.tokens import Scope

IN_ADDRESS = frozenset({"token", "access_token", "api_token", "apikey", "api_key"})  # in small letters


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself, untyped
    """The header in the words of OpenAPI."""

    target_class = "jobs.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Describe the header."""
        described = _("Token, a space, and your API token.")
        return {"type": "apiKey", "in": "header", "name": "Authorization", "description": described}


class TokenAuthentication(BaseAuthentication):
    """Take the token from the header, else from the body; without one others may try (the session)."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        """Return the token's user and the token, None where none is given; raises AuthenticationFailed."""
        _refuse_in_address(request)
        secret = _from_header(request) or _from_body(request)
        if not secret:
            return None
        token = _token(secret)
        if token is None:
            raise AuthenticationFailed(_("This token is not valid (any more)."))
        clock.follow()  # what is done with it bears the time that servers share
        token.note_use()
        origin.with_token(token.pk)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme, which turns a refusal into 401 instead of 403."""
        return "Token"


def operators_only(request: Request) -> None:
    """Let operators go on; raises PermissionDenied."""
    if not access.is_operator(request.user):
        raise PermissionDenied(_("Only an operator may do this."))


class WithinScope(BasePermission):
    """Let a token do what its scope includes; who comes without one may do all that he may.

    To read needs `read`, anything else `manage`, unless the view names what its methods need in `scopes`.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Refuse with the scope that it takes."""
        token = request.auth
        if not isinstance(token, ApiToken):
            return True
        method = request.method or "GET"
        usual = Scope.READ if method in SAFE_METHODS else Scope.MANAGE
        needed: Scope = getattr(view, "scopes", {}).get(method, usual)
        self.message = _("This needs a token of the scope %(needed)s; yours has %(scope)s.") % {
            "needed": needed.value,
            "scope": token.scope,
        }
        return Scope(token.scope).includes(needed)


def _refuse_in_address(request: Request) -> None:
    """Refuse a token in the address, valid or not: addresses end in logs and histories."""
    for name in request.query_params:
        if name.lower() in IN_ADDRESS:
            message = _(
                "A token does not belong into an address, where logs keep it: revoke it, and send another in the "
                "header Authorization: Token …"
            )
            # An exception of the framework: after another it would ask again who this is, to show the answer.
            raise ValidationError({name: ErrorDetail(message, code="token_in_address")})


def user_of(header: str) -> Any:
    """Return the user whose token a header `Authorization` holds, None for nobody."""
    secret = _secret(header)
    token = _token(secret) if secret else None
    return token.user if token else None


def _token(secret: str) -> ApiToken | None:
    token = ApiToken.objects.by_secret(secret) if secret.isprintable() else None
    if token is None or token.business_id is None:
        return token
    # It ends with the membership; should it be there all the same, it opens nothing.
    seen = access.ids_seen_by(token.user)
    if seen is not None and token.business_id not in seen:
        return None
    access.bind(token.user, token.business_id)
    return token


def _from_header(request: Request) -> str:
    return _secret(request.headers.get("Authorization", ""))


def _secret(header: str) -> str:
    scheme, _space, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "token" else ""


def _from_body(request: Request) -> str:
    if request.method != "POST" or not isinstance(request.data, dict):
        return ""
    secret = request.data.get("Token")
    return secret.strip() if isinstance(secret, str) else ""
