"""The door before uploads: who may send, and how much at once, is settled before a byte of the body is read."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from io import BytesIO
from typing import Any

from django.conf import settings
from django.contrib import auth
from django.core.handlers.asgi import ASGIRequest

from cluster import threads
from jobs.api.authentication import user_of

PATH = "/api/v1/uploads/"
BUSY = "taiji.upload_busy"  # in the scope of a request whose body was not read because too much came at once
MIB = 2**20
LONGEST_NUMBER = 18  # digits: whatever is longer is no length of anything
IDLE_S = 60.0  # a sender that sends nothing for so long gives its place to others …
SLOWEST = 32 * 2**10  # … and so does one that is slower than so many bytes a second, all in all

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[Any, Any, Any], Awaitable[None]]


class OnTheWay:
    """The bytes that are coming in to this process, by user."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_user: Counter[int] = Counter()

    def take(self, user: int, size: int) -> bool:
        """Take room for so many bytes; return whether there was any. One upload always has, whatever its size."""
        mine, all_of_them = self._by_user[user], self._by_user.total()
        if mine and mine + size > settings.UPLOAD_MIB * MIB:
            return False
        if all_of_them and all_of_them + size > settings.UPLOADS_AT_ONCE_MIB * MIB:
            return False
        self._by_user[user] += size
        return True

    def give_back(self, user: int, size: int) -> None:
        """Give the room back."""
        self._by_user[user] -= size
        self._by_user += Counter()  # forgets who has none any more


on_the_way = OnTheWay()


def before(application: Application) -> Application:
    """Return `application` with this door before it.

    A request that may not bring a body reaches its view without one, and the view says why: no valid token, too
    large, or BUSY. Django itself would write all of any body to the disk before it asks who sends it.
    """

    async def route(scope: Message, receive: Receive, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATH):
            await application(scope, receive, send)
            return
        size = _size(scope)
        user = await threads.run(_user, dict(scope)) if scope["method"] == "PUT" and size else None
        if user is None or size is None:
            await application(scope, _without_body(receive), send)
        elif not on_the_way.take(user, size):
            await application({**scope, BUSY: True}, _without_body(receive), send)
        else:
            try:
                await application(scope, _without_idlers(receive, size), send)
            finally:
                on_the_way.give_back(user, size)

    return route


def _size(scope: Message) -> int | None:
    """Return how many bytes the body may have, one MiB at least; None where that is more than is taken."""
    most = settings.UPLOAD_MIB * MIB
    said = dict(scope["headers"]).get(b"content-length", b"")
    if len(said) > LONGEST_NUMBER:
        return None
    size = int(said) if said.isdigit() else most
    return max(size, MIB) if size <= most else None


def _user(scope: Message) -> int | None:
    """Return who sends, by token or session; None for nobody."""
    request = ASGIRequest(dict(scope), BytesIO())
    secret = request.headers.get("Authorization", "")
    if secret:
        found = user_of(secret)
        return found.pk if found else None
    session: Any = import_module(settings.SESSION_ENGINE)
    request.session = session.SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    return auth.get_user(request).pk


def _without_body(receive: Receive) -> Receive:
    """Return a `receive` that says at once that there is no body, and drops what comes of it all the same."""
    said = False

    async def receiving() -> Message:
        nonlocal said
        if not said:
            said = True
            return {"type": "http.request", "body": b"", "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass
        return message

    return receiving


def _without_idlers(receive: Receive, size: int) -> Receive:
    """Return a `receive` that takes a sender who sends nothing for long, or too slowly, for one that hung up."""
    whole = False
    clock = asyncio.get_running_loop().time
    until = clock() + IDLE_S + size / SLOWEST

    async def receiving() -> Message:
        nonlocal whole
        try:
            async with asyncio.timeout_at(None if whole else min(until, clock() + IDLE_S)):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        whole = whole or not message.get("more_body")
        return message

    return receiving
