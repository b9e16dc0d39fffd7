"""Tokens over the API: made and shown once, listed, revoked; none goes further than the one that made it."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import clock
from jobs.api import asking, bodies, queries, shapes
from jobs.api.described import described
from jobs.api.tasks import caller
from jobs.config import Fault, Invalid
from jobs.values import choice, known, text, whole
from quotas import access, issuing
from quotas.models import ApiToken, Business
from quotas.tokens import Scope

MOST_DAYS = 3650
FIELDS = {
    "name": text(64),
    "scope": choice(*Scope.values),
    "days": whole(1, MOST_DAYS),
    "business": known(64),
}
TIMES = ("created_at", "expires_at", "last_used_at")
COLUMNS = ("id", "name", "hint", "user__username", "scope", "business__flag", *TIMES)


class Tokens(APIView):
    """The caller's tokens."""

    @described(
        parameters=queries.PAGE,
        operation_id="tokens_list",
        responses=shapes.answers(200, shapes.page_of(shapes.TOKEN)),
    )
    def get(self, request: Request) -> Response:
        """List the tokens that the caller may revoke: his own, and those for a business that he leads."""
        page = asking.page(request, issuing.revocable_by(caller(request)).values(*COLUMNS))
        page["results"] = [_shown(row) for row in page["results"]]
        return Response(page)

    @described(
        request=shapes.body(shapes.TOKEN_BODY),
        responses=shapes.answers(201, shapes.TOKEN_MADE),
    )
    def post(self, request: Request) -> Response:
        """Make a token; `token` is its text, shown in this answer alone, so no Idempotency-Key repeats it.

        `days`: how long it is valid; without it until it is revoked. It never goes further than the token that makes
        it: neither in scope, nor to other businesses, nor in time.
        """
        user = caller(request)
        given, faults = bodies.gathered(request.data, FIELDS, required=("name", "scope"))
        maker = request.auth if isinstance(request.auth, ApiToken) else None
        faults += _too_wide(maker, given.get("scope"))
        business = _business(user, given.get("business", ""), faults)
        faults += [] if issuing.has_room(user) else [_full()]
        if faults:
            raise Invalid(faults)
        until = _until(maker, given.get("days"))
        try:
            token, secret = issuing.issue(
                user, given["name"], scope=given["scope"], expires_at=until, business=business
            )
        except issuing.Full:  # by one that was made meanwhile
            raise Invalid([_full()]) from None
        row = get_object_or_404(ApiToken.objects.values(*COLUMNS), pk=token.pk)
        return Response(_shown(row) | {"token": secret}, status=201)


class OneToken(APIView):
    """One of them."""

    @described(responses=shapes.answers_without_body())
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke a token at once: one of one's own, or of a business that one leads."""
        user = caller(request)
        issuing.revoke(get_object_or_404(issuing.revocable_by(user), pk=pk), user)
        return Response(status=204)


def _too_wide(maker: ApiToken | None, scope: str | None) -> list[Fault]:
    if maker is None or not scope or Scope(maker.scope).includes(Scope(scope)):
        return []
    message = _("Your own token has the scope %s, and makes none that may do more.") % maker.scope
    return [Fault("scope", "too_wide", message)]


def _full() -> Fault:
    return Fault("", "too_many", _("You have %d tokens: revoke one first.") % issuing.MOST)


def _business(user: User, flag: str, faults: list[Fault]) -> Business | None:
    """Return the business that a token is to be for, None for all of the user's."""
    bound: int | None = getattr(user, access.BOUND, None)
    if not flag:
        return Business.objects.get(pk=bound) if bound is not None else None
    found = access.business_named(user, flag)
    if found is None:
        faults.append(Fault("business", "unknown", _("Name a business of yours.")))
    return found


def _until(maker: ApiToken | None, days: int | None) -> datetime | None:
    """Return when it ends: after the days, and not after the token that makes it."""
    ends = [clock.now() + timedelta(days=days)] if days else []
    if maker is not None and maker.expires_at is not None:
        ends.append(maker.expires_at)
    return min(ends, default=None)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("id", "name", "hint", "scope", *TIMES)},
        "user": row["user__username"],
        "business": row["business__flag"],
    }
