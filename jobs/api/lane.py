"""A short way to the API: each call runs whole in one thread that keeps its connection to the database.

What a call waits for (`wait`) is waited for before, without a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cluster import lane, threads, whole
from jobs.api import waiting

PREFIX, UPLOADS = "/api/v1/", "/api/v1/uploads/"
THREADS = 6

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="api")


def before(application: lane.Application) -> lane.Application:
    """Return `application` with the calls of the API, but for uploads, taken out of its way."""

    async def route(scope: Message, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["type"] == "http" and path.startswith(PREFIX) and not path.startswith(UPLOADS):
            await _serve(scope, receive, send)
        else:
            await application(scope, receive, send)

    return route


async def _serve(scope: Message, receive: Receive, send: Send) -> None:
    body = await lane.read_body(receive)
    if body is None:
        return
    leaving = asyncio.create_task(lane.hung_up(receive))
    try:
        if await _is_gone(scope, leaving):
            return
        response = await threads.run_in(_pool, whole.answer, scope, body)
        sending = asyncio.create_task(lane.answer_with(response, send))
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    finally:
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)


async def _is_gone(scope: Message, leaving: "asyncio.Task[None]") -> bool:
    """Wait for what the call waits for; say whether its caller gave up meanwhile."""
    pausing = waiting.pause(scope)
    if pausing is None:
        return False
    waited = asyncio.create_task(pausing)
    try:
        await asyncio.wait({waited, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waited.done():
            waited.result()
    finally:
        waited.cancel()
        await asyncio.gather(waited, return_exceptions=True)
    return leaving.done()
