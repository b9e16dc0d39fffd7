"""Logging in with the company's identity provider, by OpenID Connect; off where no issuer is set."""

import time
from typing import Any

import jwt
import requests
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings

from cluster.characters import bad_character, not_kept
from quotas import provider
from quotas.backend import RoleBackend
from quotas.models import ProviderIdentity

TIMEOUT_S = 10
KEPT_S = 3600.0  # what the provider says of itself
LONGEST_NAME = 150
_kept: dict[str, tuple[float, dict[str, Any]]] = {}  # by issuer: until when on this process's clock, and what


class Unusable(Exception):
    """The provider cannot be asked, or says what it must not."""


def is_on() -> bool:
    """Say whether people may log in with a provider."""
    return bool(settings.OIDC_ISSUER)


def described() -> dict[str, Any]:
    """Return what the provider says of itself; raises Unusable."""
    issuer = settings.OIDC_ISSUER.rstrip("/")
    until, found = _kept.get(issuer, (0.0, {}))
    if time.monotonic() < until:
        return found
    try:
        answer = requests.get(
            f"{issuer}/.well-known/openid-configuration", timeout=TIMEOUT_S, allow_redirects=False
        )
        answer.raise_for_status()
        found = dict(answer.json())
    except (requests.RequestException, ValueError) as error:
        raise Unusable(f"the provider {issuer} does not describe itself: {error}") from error
    if str(found.get("issuer", "")).rstrip("/") != issuer:
        raise Unusable(f"the provider calls itself {found.get('issuer')!r}, not {issuer!r}")
    _kept[issuer] = (time.monotonic() + KEPT_S, found)
    return found


def setting(name: str, *default: Any) -> Any:
    """Return a setting of the library: what is known of the provider first."""
    places = {
        "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
        "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
        "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
        "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
    }
    if name in places:
        found = described().get(places[name])
        if not found:
            raise Unusable(f"the provider names no {places[name]}")
        return found
    if name == "OIDC_TOKEN_USE_BASIC_AUTH":
        return "client_secret_basic" in described().get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        )
    return import_from_settings(name, *default)


def logout_address() -> str:
    """Return where the provider ends its own session; blank where it cannot."""
    try:
        return str(described().get("end_session_endpoint") or "")
    except Unusable:
        return ""


class ProviderBackend(OIDCAuthenticationBackend):  # type: ignore[misc]  # untyped
    """Take who the provider says it is, with the roles that its groups give."""

    def __init__(self) -> None:
        """Ask nothing yet: every page of who logged in so makes one of these."""
        self.UserModel = User

    @staticmethod
    def get_settings(attr: str, *args: Any) -> Any:
        """Return a setting."""
        return setting(attr, *args)

    def authenticate(self, request: Any, **kwargs: Any) -> User | None:
        """Return the user of the code that the provider sent along; None for other ways to log in."""
        if "nonce" not in kwargs or not is_on():
            return None
        super().__init__()
        found: User | None = super().authenticate(request, **kwargs)
        return found

    def get_user(self, user_id: int) -> User | None:
        """Return who is logged in, as after a password."""
        return RoleBackend().get_user(user_id)

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Give nothing: the other backend does."""
        return False

    def has_module_perms(self, user_obj: Any, app_label: str) -> bool:
        """Give nothing: the other backend does."""
        return False

    def retrieve_matching_jwk(self, token: str) -> Any:
        """Return the key of a token; one that names none is of the only key that there is, as the standard allows."""
        if "kid" in jwt.get_unverified_header(token):
            return super().retrieve_matching_jwk(token)
        answer = requests.get(self.OIDC_OP_JWKS_ENDPOINT, timeout=TIMEOUT_S, allow_redirects=False)
        answer.raise_for_status()
        keys = answer.json()["keys"]
        if len(keys) != 1:
            raise SuspiciousOperation("the token does not say which key it was signed with")
        return jwt.PyJWK(keys[0])

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """Check the signature and the nonce, and what the library leaves out: who issued it, and for whom."""
        payload: dict[str, Any] = super().verify_token(token, **kwargs)
        if str(payload.get("iss", "")).rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
            raise SuspiciousOperation("the token is of another issuer")
        if "exp" not in payload:  # the library refuses one that is over, and takes one that never is
            raise SuspiciousOperation("the token does not say until when it is valid")
        audience = payload.get("aud")
        if settings.OIDC_RP_CLIENT_ID not in (audience if isinstance(audience, list) else [audience]):
            raise SuspiciousOperation("the token is for somebody else")
        return payload

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return what is known of the user: all of one subject."""
        found: dict[str, Any] = super().get_userinfo(access_token, id_token, payload)
        if not payload.get("sub") or found.get("sub") != payload["sub"]:
            raise SuspiciousOperation("the provider speaks of two people")
        return {**payload, **found}

    def verify_claims(self, claims: dict[str, Any]) -> bool:
        """Let in whoever the provider knows: what he sees his groups decide."""
        subject = claims.get("sub")
        return bool(subject) and not not_kept(str(subject))

    def filter_users_by_claims(self, claims: dict[str, Any]) -> Any:
        """Find a user by his subject, never by a name or an address that somebody else may have had."""
        return User.objects.filter(
            provider_identity__issuer=settings.OIDC_ISSUER, provider_identity__subject=claims["sub"]
        )

    def create_user(self, claims: dict[str, Any]) -> User:
        """Make a user, or take the one of this name whom operators made for it: without a password."""
        name = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])[:LONGEST_NAME]
        if bad := bad_character(name, lines=False):  # people could not tell him from another
            raise SuspiciousOperation(f"the name {name!a} has the character {bad}")
        with transaction.atomic():
            user = User.objects.filter(username=name).first()
            if user is None:
                user = User.objects.create_user(name)
            elif user.has_usable_password() or user.is_superuser or hasattr(user, "provider_identity"):
                raise SuspiciousOperation(f"the name {name} is somebody else's here")
            ProviderIdentity.objects.create(user=user, issuer=settings.OIDC_ISSUER, subject=claims["sub"])
            return self.update_user(user, claims)

    def update_user(self, user: User, claims: dict[str, Any]) -> User:
        """Follow what the provider says of the user."""
        with transaction.atomic():
            user.email = _said(claims, "email", user.email)[:254]
            user.first_name = _said(claims, "given_name", user.first_name)[:150]
            user.last_name = _said(claims, "family_name", user.last_name)[:150]
            user.save(update_fields=["email", "first_name", "last_name"])
            groups = claims.get(settings.OIDC_GROUPS_CLAIM) or []
            named = [str(group) for group in ([groups] if isinstance(groups, str) else groups)]
            # Only what no database keeps is left out: a group that a rule may name has to go on being found.
            provider.follow(user, [group for group in named if not bad_character(group, lines=True)])
        return user


def _said(claims: dict[str, Any], name: str, known: str) -> str:
    """Return what is said of somebody; what was known where nothing is, or what no text may hold."""
    said = str(claims.get(name) or known)
    return known if bad_character(said, lines=False) else said
