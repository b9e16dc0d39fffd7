"""Who calls: the user of a token, from the header `Authorization: Token …` or from `Token` in the body."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from quotas.models import ApiToken


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
        secret = _from_header(request) or _from_body(request)
        if not secret:
            return None
        token = _token(secret)
        if token is None:
            raise AuthenticationFailed(_("This token is not valid (any more)."))
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme, which turns a refusal into 401 instead of 403."""
        return "Token"


def user_of(header: str) -> Any:
    """Return the user whose token a header `Authorization` holds, None for nobody."""
    secret = _secret(header)
    token = _token(secret) if secret else None
    return token.user if token else None


def _token(secret: str) -> ApiToken | None:
    return ApiToken.objects.by_secret(secret) if secret.isprintable() else None


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
