"""The one socket of a page: it says which of the page's topics changed, and how many pages ask for them now."""

import asyncio
import json
import random
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import User

from cluster import hub
from jobs.models import Attempt, Task
from jobs.portal import crowd, free_cards
from jobs.portal.free_cards import Kind
from quotas import access, presence
from quotas.access import AnyUser

OPEN_TO_ALL = frozenset({"cards", "tasks"})  # they say that something changed, not what
MOST_TOPICS = 20
BEAT_S = 20.0  # an empty message this often lets the page tell a quiet socket from a dead one
# So often everything is to be looked at while no news come in: a socket keeps its page from polling.
DEAF_S = 5.0
CALM_S = 0.2  # a storm of changes is told in so many pieces at most
# That pages wait at most, by how many hear the same: what a server needs for one of them. Free cards come by the
# short way of crowd.py.
SPREAD_MS_EACH = {"cards": 0.4}
SPREAD_MS_ELSE = 20.0
SPREAD_MS_MOST = 20_000
# Who may not see a topic any more is told nothing after this, also where the word of it was lost.
RECHECK_S = 60.0


class Live(AsyncWebsocketConsumer):
    """Send {"changed": [topic, …], "spread_ms": {topic: …}} for the topics of the query that the user may see.

    The first message names them all: what changed between the making of the page and this socket is asked for.
    """

    telling: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept a user who may see every topic he asks for."""
        self.user: AnyUser = self.scope["user"]
        session = self.scope.get("session")
        self.session_key: str | None = session.session_key if session is not None else None
        self.topics = parse_qs(self.scope["query_string"].decode("ascii", "replace")).get("topic", [])
        kind = await self._kind()
        if kind is None:
            await self.close(code=4404)  # refused alike, whether there is no such task or none for this user
            return
        await self.accept()
        self.telling = asyncio.create_task(self._tell(kind))

    async def disconnect(self, code: int) -> None:
        """End the telling with the socket."""
        if self.telling is not None:
            self.telling.cancel()
            await asyncio.gather(self.telling, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take no orders: a page only listens."""

    async def _kind(self) -> Kind | None:
        """Return what kind of reader the user is now; None where he may not listen."""
        asked = database_sync_to_async(_kind_now)(self.user, self.topics, self.session_key)
        found: Kind | None = await asked
        return found

    async def _tell(self, kind: Kind) -> None:
        loop = asyncio.get_running_loop()
        check_at = _next_check(loop.time())
        rights = presence.topic(self.user.pk or 0)
        async with hub.listen(*self.topics, rights) as listener:
            with crowd.readers.present(self.session_key, kind):
                await self._say(set(self.topics))
                while True:
                    changed = await self._news(listener)
                    if rights in changed or loop.time() > check_at:
                        if not await self._is_still_in():
                            await self.close(code=4404)
                            return
                        check_at = _next_check(loop.time())
                    await self._say(changed - {rights})

    async def _news(self, listener: hub.Listener) -> set[str]:
        """Return what changed, or is to be looked at because nothing can be known of it."""
        changed = await listener.changed(BEAT_S if hub.hears() else DEAF_S)
        return changed if hub.hears() else changed | set(self.topics)

    async def _is_still_in(self) -> bool:
        """Say whether the user may still listen, and note what he may see now."""
        kind = await self._kind()
        if kind is None:
            return False
        crowd.readers.sees(self.session_key, kind)
        return True

    async def _say(self, changed: set[str]) -> None:
        await self.send(text_data=message(changed))
        await asyncio.sleep(CALM_S)


def _next_check(now: float) -> float:
    """Return when a socket looks anew: not all that were opened together in the same moment, which delays news."""
    return now + RECHECK_S * random.uniform(0.5, 1)


def message(changed: set[str]) -> str:
    """Return what a page is told; of a thousand pages each waits a while of its own before it asks."""
    spread_ms = {topic: _spread_ms(topic) for topic in sorted(changed)}
    return json.dumps({"changed": sorted(changed), "spread_ms": spread_ms})


def _spread_ms(topic: str) -> float:
    each = SPREAD_MS_EACH.get(topic, SPREAD_MS_ELSE)
    return min(SPREAD_MS_MOST, round(each * hub.listeners({topic})))


def _kind_now(user: AnyUser, topics: list[str], session_key: str | None) -> Kind | None:
    """Ask anew: the user of a socket is as he was when it was opened, also when he was put out or logged out since.

    A new password ends what was opened with the old one, as it ends sessions; the page then opens a socket anew.
    """
    same = User.objects.filter(pk=user.pk or 0, password=getattr(user, "password", ""))
    current = same.select_related(access.ROLE).first()
    if current is None or (session_key is not None and not presence.is_in(session_key)):
        return None
    return free_cards.kind_of(current) if may_listen(current, topics) else None


def may_listen(user: AnyUser, topics: list[str]) -> bool:
    """Say whether `user` is logged in and may see everything that `topics` name."""
    if not user.is_authenticated or not user.is_active or not 0 < len(topics) <= MOST_TOPICS:
        return False
    tasks: set[int] = set()
    attempts: set[int] = set()
    for topic in set(topics) - OPEN_TO_ALL:
        kind, _dot, number = topic.partition(".")
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
