"""Open pages that ask for their parts, as the server sees them."""

import re
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.test import Client

from cluster import hints, hub, whole
from jobs.portal import parts
from jobs.portal.readers import Reader, reader_of, readers

DJANGO = "Django's way"
TOKEN = re.compile(r'csrfmiddlewaretoken" value="(\w+)"')


class Pages:
    """Open pages, their sessions and what was made for them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made_at: list[float] = []
        self.status = 0
        self._readers: dict[str, Reader] = {}
        self._application = parts.before(self._django)
        answer = whole.answer

        def counted(*args: Any) -> Any:
            self.made_at.append(time.monotonic())
            return answer(*args)

        monkeypatch.setattr(whole, "answer", counted)

    def of(self, user: User, *, with_socket: bool = True) -> str:
        """Return the session of a page of `user`."""
        browser = Client()
        browser.force_login(user)
        session = browser.cookies["sessionid"].value
        if with_socket:
            self._readers[session] = reader_of(user)
        return session

    def run(self, deed: Callable[[], Awaitable[None]]) -> None:
        """Run it while the pages have their sockets and news are heard."""

        async def go() -> None:
            async with hub.listen("tasks") as listener:
                await listener.changed(60)  # subscribed
                with ExitStack() as sockets:
                    for session, reader in self._readers.items():
                        sockets.enter_context(readers.present(session, reader))
                    await deed()

        async_to_sync(go)()

    async def ask(self, session: str, where: str = "/tasks/", *, token: str = "", **changes: Any) -> str:
        """Return what the page is answered."""
        cookies = f"sessionid={session}; django_language=en" + (f"; csrftoken={token}" if token else "")
        target = b"list" if where.startswith("/tasks/?") or where == "/tasks/" else b"live"
        headers = [(b"host", b"testserver"), (b"cookie", cookies.encode())]
        headers += [(b"hx-request", b"true"), (b"hx-target", target)]
        path, _mark, query = where.partition("?")
        scope = {
            **{"type": "http", "method": "GET", "path": path, "query_string": query.encode()},
            **{"headers": headers, "server": ("testserver", 80), "client": ("127.0.0.1", 1)},
        }
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            raise AssertionError("nothing is read")

        await self._application(scope | changes, receive, send)
        self.status = sent[0]["status"]
        return b"".join(part.get("body", b"") for part in sent[1:]).decode()

    async def _django(self, _scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": DJANGO.encode()})


async def told(*topics: str) -> None:
    """Say that something changed, and wait until it is heard."""
    async with hub.listen(*topics) as listener:
        await sync_to_async(hints.publish)(*topics)
        await listener.changed(60)
