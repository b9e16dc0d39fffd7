"""Where a request comes from: the address behind proxies that are trusted, the browser or program, the token."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

LONGEST_AGENT = 255
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a deed comes from; blank and None: from this machine's own programs, or not known."""

    address: str = ""
    agent: str = ""  # what the browser or program calls itself
    token_id: int | None = None


NOWHERE = Origin()
_current: ContextVar[Origin] = ContextVar("origin", default=NOWHERE)  # it is frozen


def current() -> Origin:
    """Return where the request at hand comes from."""
    return _current.get()


def with_token(token_id: int) -> None:
    """Note that the request at hand came with this token."""
    _current.set(replace(_current.get(), token_id=token_id))


def of(request: HttpRequest) -> Origin:
    """Return where a request comes from."""
    forwarded = request.headers.get("X-Forwarded-For", "")
    address = address_of(request.META.get("REMOTE_ADDR") or "", forwarded, settings.TRUSTED_PROXIES)
    said = request.headers.get("User-Agent", "")[:LONGEST_AGENT]
    return Origin(address=address, agent="".join(sign if sign.isprintable() else "?" for sign in said))


def address_of(peer: str, forwarded: str, trusted: Sequence[Network]) -> str:
    """Return the nearest address that is no trusted proxy's: each of those says truly who called it, others may lie."""
    told = [part.strip() for part in forwarded.split(",")]
    address = _plain(peer)
    while told and _is_among(address, trusted):
        address = _plain(told.pop()) or address
    return address


def _plain(text: str) -> str:
    """Return an address in its usual form; blank for what is none."""
    host = text.strip("[]") if text.startswith("[") and text.endswith("]") else text
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(found, "ipv4_mapped", None) or found)


def _is_among(address: str, networks: Sequence[Network]) -> bool:
    if not address:
        return False
    found = ip_address(address)
    return any(found in network for network in networks if network.version == found.version)


@contextmanager
def coming(origin: Origin) -> Iterator[None]:
    """Let what is done within come from there."""
    before = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(before)


@sync_and_async_middleware
def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Note where each request comes from, for as long as it is answered."""
    if asyncio.iscoroutinefunction(get_response):
        answer = cast("Callable[[HttpRequest], Awaitable[HttpResponseBase]]", get_response)

        async def enter(request: HttpRequest) -> HttpResponseBase:
            with coming(of(request)):
                return await answer(request)

        return enter

    def enter_plainly(request: HttpRequest) -> HttpResponseBase:
        with coming(of(request)):
            return cast(HttpResponseBase, get_response(request))

    return enter_plainly
