"""A short way to the agents' views: no middleware, no thread of its own for each call.

A thousand agents call every few seconds and have neither sessions nor languages; Django's own way costs
each of their calls some 20 hops between threads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponseBase, HttpResponseNotAllowed, JsonResponse, StreamingHttpResponse
from django.http.response import Http404
from django.urls import resolve

log = logging.getLogger(__name__)
PREFIX = "/api/agent/"
UPLOADS = "/api/v1/uploads/"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]


def before(application: Application) -> Application:
    """Return `application` with the agents' calls taken out of its way."""

    async def route(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await _serve(scope, receive, send)
        else:
            bounded = _bounded(scope["path"], receive) if scope["type"] == "http" else receive
            await application(scope, bounded, send)

    return route


def _bounded(path: str, receive: Receive) -> Receive:
    """Return `receive` with the body cut just beyond what any view takes: Django writes all of it to the disk first."""
    is_upload = path.startswith(UPLOADS)
    left = (settings.UPLOAD_MIB * 2**20 if is_upload else settings.DATA_UPLOAD_MAX_MEMORY_SIZE) + 1

    async def bounded() -> Message:
        nonlocal left
        message = await receive()
        while message["type"] == "http.request" and not left:
            message = await receive()
        if message["type"] != "http.request":
            return message
        body = message.get("body", b"")[:left]
        left = left - len(body) if message.get("more_body") else 0
        return {**message, "body": body, "more_body": left > 0}

    return bounded


async def _serve(scope: Message, receive: Receive, send: Send) -> None:
    body = await read_body(receive)
    if body is None:
        return
    answering = asyncio.create_task(_answer(scope, body))
    leaving = asyncio.create_task(hung_up(receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            await answer_with(answering.result(), send)
    finally:
        answering.cancel()
        leaving.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)


async def read_body(receive: Receive) -> bytes | None:
    """Return the body, cut just beyond the size that views refuse, or None where the caller hung up."""
    parts: list[bytes] = []
    left = (settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0) + 1
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")[:left]
        parts.append(part)
        left -= len(part)
        if not left or not message.get("more_body"):
            return b"".join(parts)


async def hung_up(receive: Receive) -> None:
    """Return when the caller does not wait for the answer any more."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(scope: Message, body: bytes) -> HttpResponseBase:
    try:
        request = ASGIRequest(dict(scope), BytesIO(body))
        match = resolve(request.path_info)
        response: HttpResponseBase = await match.func(request, *match.args, **match.kwargs)
        return _not_allowed(response) if isinstance(response, HttpResponseNotAllowed) else response
    except Http404:
        return _fault(404, "unknown", "There is nothing at this address.")
    except Exception:  # the last line of defence: the agent is to be answered, whatever it was
        log.exception("a call of an agent failed: %s", scope["path"])
        return _fault(500, "error", "The platform could not do this; its log says why.")


def _not_allowed(response: HttpResponseNotAllowed) -> JsonResponse:
    """Say the same in the form of all other faults."""
    told = _fault(405, "method_not_allowed", f"This address takes {response['Allow']}.")
    told["Allow"] = response["Allow"]
    return told


def _fault(status: int, code: str, message: str) -> JsonResponse:
    return JsonResponse({"errors": [{"field": "", "code": code, "message": message}]}, status=status)


async def answer_with(response: HttpResponseBase, send: Send) -> None:
    """Send a response, one that is made while it is sent piece by piece."""
    start, body = messages(response)
    await send(start)
    if isinstance(response, StreamingHttpResponse):
        async for part in response:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send(body)


def messages(response: HttpResponseBase) -> tuple[Message, Message]:
    """Return what is sent of a response that is whole, or before and after the pieces of another."""
    content = getattr(response, "content", b"")
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in response.items()]
    headers += [
        (b"set-cookie", cookie.OutputString().encode("latin-1")) for cookie in response.cookies.values()
    ]
    if not isinstance(response, StreamingHttpResponse) and not response.has_header("Content-Length"):
        headers.append((b"content-length", str(len(content)).encode()))  # proxies refuse one that comes twice
    start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
    return start, {"type": "http.response.body", "body": content}
