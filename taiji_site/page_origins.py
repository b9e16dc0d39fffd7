"""Sockets are for the pages of this site: one of another site would bring the cookies of whoever looks at it."""

from typing import Any
from urllib.parse import SplitResult, urlsplit

from channels.security.websocket import OriginValidator
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from cluster import lane


def only(application: lane.Application) -> lane.Application:
    """Return `application` for pages that came from the very name and port that their socket asks for.

    Behind a proxy that asks by another name it is the names of TAIJI_ALLOWED_HOSTS and TAIJI_TRUSTED_ORIGINS. That
    the server answers to any name (`*`) makes no other site ours.
    """
    named = [name for name in settings.ALLOWED_HOSTS if name != "*"]
    trusted = [origin.replace("://*.", "://.") for origin in settings.CSRF_TRUSTED_ORIGINS]
    others: Any = OriginValidator(application, [*named, *trusted])

    async def route(scope: lane.Message, receive: lane.Receive, send: lane.Send) -> None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = _origin(headers.get(b"origin", b"").decode("latin-1").lower())
        same = origin is not None and bool(host) and origin.netloc == host
        of_this_site = same and validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
        if of_this_site or others.valid_origin(origin):
            await application(scope, receive, send)
        else:  # by hand: the consumer of Channels' own refusal looks after connections to a database first
            await send({"type": "websocket.close"})

    return route


def _origin(header: str) -> SplitResult | None:
    """Return the parts of an `Origin` header, None for one that is missing or no address."""
    try:
        origin = urlsplit(header)
        origin.port  # noqa: B018  # raises where it is no number of a port
    except ValueError:
        return None
    return origin if header else None
