"""Tokens made and revoked: by pages and API alike, with a line in the audit."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet

from quotas import access, audit
from quotas.models import ApiToken, Business
from quotas.tokens import digest

MOST = 50  # tokens of one user


class Full(Exception):
    """The user has as many tokens as anybody may have."""


def has_room(user: User) -> bool:
    """Say whether the user may have one more."""
    return ApiToken.objects.filter(user=user).count() < MOST


def issue(
    user: User, name: str, *, scope: str, expires_at: datetime | None, business: Business | None
) -> tuple[ApiToken, str]:
    """Make a token of the user; return it and its text, which is kept nowhere. Raises Full."""
    with transaction.atomic():
        # Of two that are made at once, the second counts the first.
        User.objects.select_for_update(no_key=True).filter(pk=user.pk).first()
        if not has_room(user):
            raise Full
        secret = ApiToken.objects.issue(
            user, name, scope=scope, expires_at=expires_at, business_id=business.pk if business else None
        )
        token = ApiToken.objects.get(digest=digest(secret))
        until = expires_at.isoformat(timespec="seconds") if expires_at else "never"
        flag = business.flag if business else ""
        audit.note("token.made", by=user, on=token, scope=scope, until=until, business=flag)
    return token, secret


def revocable_by(user: User) -> QuerySet[ApiToken]:
    """Return the tokens that the user may end: his own, and those for a business that he leads."""
    own = Q(user=user)
    bound: int | None = getattr(user, access.BOUND, None)
    if bound is not None:  # with a token for one business he is no more than what he is there
        own &= Q(business=bound)
    return ApiToken.objects.filter(own | Q(business__in=access.businesses_led_by(user)))


def revoke(token: ApiToken, by: User) -> None:
    """End a token at once."""
    with transaction.atomic():
        if ApiToken.objects.select_for_update().filter(pk=token.pk).exists():  # else somebody was quicker
            audit.note("token.revoked", by=by, on=token, user=token.user.get_username())
            token.delete()
