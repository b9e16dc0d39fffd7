"""The one socket of a page: it says which of the page's topics changed, and how many pages ask for them now."""

import asyncio
import json
import logging
import random
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error

from cluster import hub, lane, threads
from jobs.models import Attempt, Task
from jobs.portal.readers import Reader, reader_of, readers
from quotas import presence, still_in
from quotas.access import AnyUser

log = logging.getLogger(__name__)
OPEN_TO_ALL = frozenset({"cards", "tasks"})  # they say that something changed, not what
MOST_TOPICS = 20
BEAT_S = 20.0  # an empty message this often lets the page tell a quiet socket from a dead one
# So often everything is to be looked at while no news come in: a socket keeps its page from polling.
DEAF_S = 5.0
CALM_S = 0.2  # a storm of changes is told in so many pieces at most
# That pages wait at most, for each that hears the same: a little less than what the server needs to answer one. What
# it has to make first (parts.py) waits there, where it is known how many get the same.
SPREAD_MS_EACH = 0.4
SPREAD_MS_MOST = 20_000
# Who may not see a topic any more is told nothing after this, also where the word of it was lost.
RECHECK_S = 60.0
SEND = "taiji.send"


def straight(application: lane.Application) -> lane.Application:
    """Return `application` with a straight way for news: past what looks at each message whether a session changed."""

    async def route(scope: lane.Message, receive: lane.Receive, send: lane.Send) -> None:
        await application({**scope, SEND: send}, receive, send)

    return route


class Live(AsyncWebsocketConsumer):
    """Send {"changed": [topic, …], "spread_ms": {topic: …}} for the topics of the query that the user may see.

    The first message names them all: what changed between the making of the page and this socket is asked for.
    """

    _tasks: tuple[asyncio.Task[None], ...] = ()

    async def connect(self) -> None:
        """Accept a user who may see every topic he asks for."""
        self.user: AnyUser = self.scope["user"]
        session = self.scope.get("session")
        self.session_key: str | None = session.session_key if session is not None else None
        self.topics = parse_qs(self.scope["query_string"].decode("ascii", "replace")).get("topic", [])
        mark = hub.mark()
        reader = await self._reader()
        if reader is None:
            await self.close(code=4404)  # refused alike, whether there is no such task or none for this user
            return
        await self.accept()
        self._tasks = asyncio.create_task(self._tell(reader)), asyncio.create_task(self._watch(mark))

    async def disconnect(self, code: int) -> None:
        """End what is done for the socket with it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take no orders: a page only listens."""

    async def _reader(self) -> Reader | None:
        """Return what the user may see now; None where he may not listen."""
        return await threads.run_for_pages(_reader_now, self.user, self.topics, self.session_key)

    async def _tell(self, reader: Reader) -> None:
        loop, send = asyncio.get_running_loop(), self.scope.get(SEND, self.base_send)
        async with hub.listen(*self.topics) as listener:
            with readers.present(self.session_key, reader):
                changed = set(self.topics)
                while True:
                    await send({"type": "websocket.send", "text": message(changed)})
                    calm_at = loop.time() + CALM_S
                    changed = await self._news(listener)
                    if (calm_s := calm_at - loop.time()) > 0:
                        await asyncio.sleep(calm_s)
                        changed |= listener.taken()

    async def _news(self, listener: hub.Listener) -> set[str]:
        """Return what changed, or is to be looked at because nothing can be known of it."""
        deaf_s = DEAF_S * random.uniform(0.8, 1.2)  # not all pages in the same moment
        changed = await listener.changed(BEAT_S if hub.hears() else deaf_s)
        return changed if hub.hears() else changed | set(self.topics)

    async def _watch(self, mark: hub.Mark) -> None:
        """End the socket of a user who may not listen any more: at once where that is told, else after a while.

        It is done beside the telling: of a thousand sockets many are due in any moment, and news do not wait for them.
        """
        async with hub.listen(presence.topic(self.user.pk or 0), read_after=mark) as listener:
            while True:
                await listener.changed(RECHECK_S * random.uniform(0.5, 1))
                try:
                    reader = await self._reader()
                except Error as error:
                    log.warning("nobody can say who may listen: %s", error)  # nor show him anything
                    continue
                if reader is None:
                    break
                readers.sees(self.session_key, reader)
        self._tasks[0].cancel()
        await self.close(code=4404)


def message(changed: set[str]) -> str:
    """Return what a page is told; of a thousand pages each waits a while of its own before it asks."""
    return _message(tuple((topic, _spread_ms(topic)) for topic in sorted(changed)))


@lru_cache(256)  # a thousand sockets send the same
def _message(spread: tuple[tuple[str, float], ...]) -> str:
    return json.dumps({"changed": [topic for topic, _ms in spread], "spread_ms": dict(spread)})


def _spread_ms(topic: str) -> float:
    return min(SPREAD_MS_MOST, round(SPREAD_MS_EACH * hub.listeners({topic})))


def _reader_now(user: AnyUser, topics: list[str], session_key: str | None) -> Reader | None:
    """Ask anew: the user of a socket is as he was when it was opened, also when he was put out or logged out since.

    A new password ends what was opened with the old one, as it ends sessions; the page then opens a socket anew.
    """
    current = still_in.now(user, session_key)
    return reader_of(current) if current and may_listen(current, topics) else None


def may_listen(user: AnyUser, topics: list[str]) -> bool:
    """Say whether `user` is logged in and may see everything that `topics` name."""
    if not user.is_authenticated or not user.is_active or not 0 < len(topics) <= MOST_TOPICS:
        return False
    tasks: set[int] = set()
    attempts: set[int] = set()
    for topic in set(topics) - OPEN_TO_ALL:
        kind, _dot, number = topic.partition(".")
        if topic == f"mine.{user.pk}":
            continue
        if kind not in {"task", "log"} or not (number.isascii() and number.isdigit()) or len(number) > 18:
            return False
        (tasks if kind == "task" else attempts).add(int(number))
    return _sees(user, tasks, attempts)


def _sees(user: AnyUser, task_ids: set[int], attempt_ids: set[int]) -> bool:
    visible: Any = Task.objects.visible_to(user)
    if task_ids and visible.filter(pk__in=task_ids).count() != len(task_ids):
        return False
    own = Attempt.objects.filter(pk__in=attempt_ids, task__in=visible)
    return not attempt_ids or own.count() == len(attempt_ids)
