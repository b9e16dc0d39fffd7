"""`Idempotency-Key`: a request that is repeated under its key does nothing more, and gets the answer it got.

An answer is kept only where something was made or changed: what was refused is looked at anew.
"""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, cast

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from rest_framework.exceptions import APIException
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from cluster import clock
from jobs.config import Fault, Invalid
from jobs.kept_answers import KEPT_FOR, KeptAnswer
from jobs.services import Conflict
from jobs.values import bad_character
from quotas import access

JSON = "application/json"
HEADER, REPEATED = "Idempotency-Key", "Idempotency-Replayed"
LONGEST = 255
LEASE = timedelta(minutes=2)  # longer than any request takes that works apart from its row
PATIENCE_S, LOOK_S = 10.0, 0.1
View = Callable[..., Any]


class InProgress(APIException):
    """The same request is being worked on."""

    status_code = 409
    default_code = "in_progress"
    wait = 1  # seconds


def once(post: View) -> View:
    """Let a view's effect and its answer be one transaction: there are both, or neither.

    Who comes with the same key meanwhile waits for the first at the row of the key.
    """

    @wraps(post)
    def posting(view: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key = _key(request)
        if not key:
            return cast(HttpResponseBase, post(view, request, *args, **kwargs))
        with transaction.atomic():
            kept, fresh = _row(request, key)
            if not fresh:
                return _again(kept)
            return _keep(kept, post(view, request, *args, **kwargs))

    return posting


def once_apart(post: View) -> View:
    """The same for what works in many short transactions: the row says that somebody is at it, for so long at most.

    A process that dies at it leaves part of it done, and whoever repeats it after that time does the rest.
    """

    @wraps(post)
    def posting(view: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key = _key(request)
        if not key:
            return cast(HttpResponseBase, post(view, request, *args, **kwargs))
        kept = _taken(request, key)
        if kept.status is not None:
            return _again(kept)
        try:
            response = post(view, request, *args, **kwargs)
        except BaseException:
            kept.delete()
            raise
        return _keep(kept, response)

    return posting


def _key(request: Request) -> str:
    key = request.headers.get(HEADER, "").strip()
    if len(key) > LONGEST or bad_character(key, lines=False):
        message = _("Write at most %d printable characters.") % LONGEST
        raise Invalid([Fault(HEADER, "length", message)])
    return key


def _row(request: Request, key: str) -> tuple[KeptAnswer, bool]:
    """Return the row of the key, and whether it is this request that works on it; Conflict for another request."""
    clock.follow()  # else a key would be new again, and what another server works on be taken from it, by its clock
    now, asked = clock.now(), _digest(request)
    user = cast(User, request.user)
    kept, made = KeptAnswer.objects.get_or_create(user=user, key=key, defaults={"asked": asked, "at": now})
    if not made and kept.at < now - KEPT_FOR and _take(kept, now, asked=asked, status=None, body=""):
        made = True
    if kept.asked != asked:
        message = _(
            "This Idempotency-Key came with another request before; give each request a key of its own."
        )
        raise Conflict("idempotency_key_reused", message)
    return kept, made


def _taken(request: Request, key: str) -> KeptAnswer:
    """Return the row with an answer, or taken by this request to make one; raises InProgress."""
    until = time.monotonic() + PATIENCE_S
    while True:
        with transaction.atomic():
            kept, fresh = _row(request, key)
            now = clock.now()
            free = fresh or (kept.status is None and kept.until is not None and kept.until < now)
            if free and _take(kept, now, until=now + LEASE):
                return kept
        if kept.status is not None:
            return kept
        if time.monotonic() > until:
            raise InProgress(_("The same request is being worked on; ask again in a moment."))
        time.sleep(LOOK_S)


def _take(kept: KeptAnswer, now: Any, **values: Any) -> bool:
    """Set the values and the time, unless somebody else did meanwhile."""
    same = KeptAnswer.objects.filter(pk=kept.pk, at=kept.at)
    if not same.update(at=now, **values):
        return False
    kept.at = now
    for name, value in values.items():
        setattr(kept, name, value)
    return True


def _digest(request: Request) -> str:
    """Return what tells this request from others: its address and the values of its body, secrets too.

    A token for one business alone tells it too: its answer is for nobody who is less, or somebody else's business.
    """
    bound: int | None = getattr(request.user, access.BOUND, None)
    said = [request.method, request.get_full_path(), request.data, *([bound] if bound is not None else ())]
    return salted_hmac("idempotency", json.dumps(said, sort_keys=True), algorithm="sha256").hexdigest()


def _keep(kept: KeptAnswer, response: Response) -> HttpResponse:
    body = JSONRenderer().render(response.data).decode()
    KeptAnswer.objects.filter(pk=kept.pk).update(status=response.status_code, body=body, until=None)
    return HttpResponse(body, status=response.status_code, content_type=JSON)


def _again(kept: KeptAnswer) -> HttpResponse:
    response = HttpResponse(kept.body, status=kept.status, content_type=JSON)
    response[REPEATED] = "true"
    return response
