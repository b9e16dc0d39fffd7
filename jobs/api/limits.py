"""How many calls one token makes a minute: counted by all web processes together, and told in every answer."""

import time
from asyncio import iscoroutinefunction
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from cluster import hints
from quotas.models import ApiToken

WINDOW_S = 60
EVERY = 100  # calls after which a count is told anew when it may be forgotten
LIMIT, LEFT, RESET = "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"


@dataclass(frozen=True, slots=True)
class Rate:
    """Where a caller stands in the minute at hand."""

    limit: int
    used: int
    reset_s: int  # until the next one begins

    @property
    def left(self) -> int:
        """Return how many calls he has left in it."""
        return max(0, self.limit - self.used)


class PerToken(BaseThrottle):
    """Let each token, and each user without one, make so many calls a minute.

    Nobody is refused while nothing counts: a Valkey that is away stops no work.
    """

    wait_s = 0

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count the call; refuse it where there were enough."""
        rate = _count(_who(request))
        if rate is None:
            return True
        request._request.META[RATE] = rate
        self.wait_s = rate.reset_s
        return rate.used <= rate.limit

    def wait(self) -> float:
        """Return how long (seconds) whoever was refused should wait."""
        return float(self.wait_s)


RATE = "taiji.rate"  # in the META of a request that was counted


def _who(request: Request) -> str:
    token = request.auth
    return f"token.{token.pk}" if isinstance(token, ApiToken) else f"user.{request.user.pk}"


def _count(who: str) -> Rate | None:
    limit = settings.API_RATE
    if not limit:
        return None
    minute, second = divmod(time.time(), WINDOW_S)
    key = f"{hints.CHANNEL}rate.{who}.{int(minute)}"

    def count(redis: Any) -> int:
        used = int(redis.incr(key))
        if used % EVERY == 1:  # a process that dies just here leaves it to the next
            redis.expire(key, 2 * WINDOW_S)
        return used

    used = hints.ask(count)
    return None if used is None else Rate(limit, used, max(1, round(WINDOW_S - second)))


@sync_and_async_middleware
def headers(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Tell every caller who was counted where he stands."""
    if iscoroutinefunction(get_response):

        async def awaiting(request: HttpRequest) -> HttpResponseBase:
            return _told(request, await get_response(request))

        return awaiting

    def answering(request: HttpRequest) -> HttpResponseBase:
        return _told(request, get_response(request))

    return answering


def _told(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    rate = request.META.get(RATE)
    if isinstance(rate, Rate):
        response[LIMIT], response[LEFT], response[RESET] = str(rate.limit), str(rate.left), str(rate.reset_s)
    return response
