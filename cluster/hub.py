"""News of what changed: one Redis subscription per web process, shared by all who wait in it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from django.conf import settings
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from cluster.hints import CHANNEL

log = logging.getLogger(__name__)
QUIET_S = 20.0  # after so long without a message Redis is asked whether it is still there
ANSWER_S = 5.0  # it has so long to say so
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
MOST_REMEMBERED = 20_000  # topics
Mark = tuple[int | None] | None  # None: none was taken


class Listener:
    """The topics published since the last look: a set, so that any number of messages costs the same."""

    __slots__ = ("_news", "_told", "topics")

    def __init__(self, topics: tuple[str, ...]) -> None:
        """Listen to these topics."""
        self.topics = frozenset(topics)
        self._news: set[str] = set()
        self._told = asyncio.Event()

    def tell(self, topics: frozenset[str]) -> None:
        """Note that `topics` changed."""
        self._news |= topics
        if self._news:
            self._told.set()

    async def changed(self, timeout_s: float) -> set[str]:
        """Return the topics published since the last call, waiting for the first; empty at time-out."""
        if not self._news:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._told.wait()
        return self.taken()

    def taken(self) -> set[str]:
        """Return those that are there already, without waiting."""
        news, self._news = self._news, set()
        self._told.clear()
        return news


class Hub:
    """The subscription of one event loop and those who listen."""

    def __init__(self) -> None:
        """Start reading; the loop ends it."""
        self._listeners: dict[str, set[Listener]] = {}
        self._number = 0  # of the last message
        self._last: dict[str, int] = {}  # topic → number of its last message
        self._complete_since: int | None = None  # none after this one was missed; None: not subscribed
        self._reader = asyncio.create_task(self._read())

    def add(self, listener: Listener) -> None:
        """Tell the listener of its topics from now on."""
        for topic in listener.topics:
            self._listeners.setdefault(topic, set()).add(listener)

    def mark(self) -> int | None:
        """Return what `heard` tells news from: that of this moment; None where nothing is heard at the moment."""
        return None if self._complete_since is None else self._number

    def heard(self, topic: str, mark: int | None) -> bool:
        """Say whether there may have been news of the topic since the mark."""
        if mark is None or self._complete_since is None or mark < self._complete_since:
            return True
        return self._last.get(topic, 0) > mark

    def remove(self, listener: Listener) -> None:
        """Tell it no more."""
        for topic in listener.topics:
            self._listeners[topic].discard(listener)
            if not self._listeners[topic]:
                del self._listeners[topic]

    def crowd(self, topics: set[str]) -> int:
        """Return how many listen to that of the topics which most listen to."""
        return max(len(self._listeners.get(topic, ())) for topic in topics)

    async def _read(self) -> None:
        """Read messages for as long as the loop runs; Redis may come and go."""
        retry_s = FIRST_RETRY_S
        while True:
            try:
                async for channel in _messages():
                    retry_s = FIRST_RETRY_S
                    self._tell(channel)
            except (RedisError, OSError) as error:
                self._complete_since = None
                if retry_s == FIRST_RETRY_S:  # once, not at every try
                    log.warning("no news until Redis is back: %s", error)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, LAST_RETRY_S)

    def _tell(self, channel: str | None) -> None:
        self._number += 1
        if channel is None:
            self._complete_since = self._number
            # Newly subscribed: what was published before is lost, so everybody has to look once.
            for listener in {one for some in self._listeners.values() for one in some}:
                listener.tell(listener.topics)
            return
        topic = channel.removeprefix(CHANNEL)
        if len(self._last) >= MOST_REMEMBERED:  # those that asked before look once more
            self._last.clear()
            self._complete_since = self._number
        self._last[topic] = self._number
        for listener in self._listeners.get(topic, ()):
            listener.tell(frozenset((topic,)))


async def _messages() -> AsyncIterator[str | None]:
    """Yield None once subscribed, then each topic's channel; raises RedisError when Redis is away."""
    # No retries inside: a connection that was silently made anew would hide what was lost meanwhile.
    client = Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
    async with client, client.pubsub() as subscription:
        await subscription.psubscribe(CHANNEL + "*")
        asked = False
        while True:
            message = await subscription.get_message(timeout=ANSWER_S if asked else QUIET_S)
            if message is None:
                if asked:
                    raise RedisConnectionError("no answer to a ping")
                await subscription.ping()
            elif message["type"] == "psubscribe":
                yield None
            elif message["type"] == "pmessage":
                yield message["channel"].decode(errors="replace")
                for topic in message["data"].decode(errors="replace").split():
                    yield CHANNEL + topic
            asked = message is None


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def _hub() -> Hub:
    """Return the hub of the running loop, made at the first call."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        for closed in [other for other in _hubs if other.is_closed()]:
            del _hubs[closed]
        _hubs[loop] = Hub()
    return _hubs[loop]


def mark() -> Mark:
    """Return a mark of this moment, for who reads the database before he listens."""
    found = _hubs.get(asyncio.get_running_loop())  # none is begun for those who may not wait at all
    return (found.mark() if found else None,)


def heard(topic: str, mark: Mark) -> bool:
    """Say whether there may have been news of the topic since the mark was taken."""
    found = _hubs.get(asyncio.get_running_loop())
    return found is None or mark is None or found.heard(topic, mark[0])


def hears() -> bool:
    """Say whether news come in at the moment; without them nobody can know what changed."""
    return _hub().mark() is not None


def listeners(topics: set[str]) -> int:
    """Return how many in this process listen to that of the topics which most listen to."""
    return _hub().crowd(topics)


@asynccontextmanager
async def listen(*topics: str, read_after: Mark = None) -> AsyncIterator[Listener]:
    """Listen to `topics`: from here on no news of them is lost while Redis is there.

    Read the database after entering, then wait on the listener; or read it before, after taking a `mark`: then
    what was told since is news at once. Without Redis there are only time-outs; when it comes back everybody
    is told once.
    """
    hub, listener = _hub(), Listener(topics)
    hub.add(listener)
    if read_after is not None:
        listener.tell(frozenset(topic for topic in topics if hub.heard(topic, read_after[0])))
    try:
        yield listener
    finally:
        hub.remove(listener)
