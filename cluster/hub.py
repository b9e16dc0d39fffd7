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
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0


class Listener:
    """The topics published since the last look: a set, so that any number of messages costs the same."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        """Listen to these topics."""
        self.topics = frozenset(topics)
        self._news: set[str] = set()
        self._told = asyncio.Event()

    def tell(self, topics: frozenset[str]) -> None:
        """Note that `topics` changed."""
        self._news |= topics
        self._told.set()

    async def changed(self, timeout_s: float) -> set[str]:
        """Return the topics published since the last call, waiting for the first; empty at time-out."""
        if not self._news:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._told.wait()
        news, self._news = self._news, set()
        self._told.clear()
        return news


class Hub:
    """The subscription of one event loop and those who listen."""

    def __init__(self) -> None:
        """Start reading; the loop ends it."""
        self._listeners: dict[str, set[Listener]] = {}
        self._reader = asyncio.create_task(self._read())

    def add(self, listener: Listener) -> None:
        """Tell the listener of its topics from now on."""
        for topic in listener.topics:
            self._listeners.setdefault(topic, set()).add(listener)

    def remove(self, listener: Listener) -> None:
        """Tell it no more."""
        for topic in listener.topics:
            self._listeners[topic].discard(listener)
            if not self._listeners[topic]:
                del self._listeners[topic]

    async def _read(self) -> None:
        """Read messages for as long as the loop runs; Redis may come and go."""
        retry_s = FIRST_RETRY_S
        while True:
            try:
                async for channel in _messages():
                    retry_s = FIRST_RETRY_S
                    self._tell(channel)
            except (RedisError, OSError) as error:
                if retry_s == FIRST_RETRY_S:  # once, not at every try
                    log.warning("no news until Redis is back: %s", error)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, LAST_RETRY_S)

    def _tell(self, channel: str | None) -> None:
        if channel is None:
            # Newly subscribed: what was published before is lost, so everybody has to look once.
            for listener in {one for some in self._listeners.values() for one in some}:
                listener.tell(listener.topics)
            return
        topic = channel.removeprefix(CHANNEL)
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
            message = await subscription.get_message(timeout=QUIET_S)
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


@asynccontextmanager
async def listen(*topics: str) -> AsyncIterator[Listener]:
    """Listen to `topics`: from here on no news of them is lost while Redis is there.

    Read the database after entering, then wait on the listener. Without Redis there are only time-outs;
    when it comes back everybody is told once.
    """
    hub, listener = _hub(), Listener(topics)
    hub.add(listener)
    try:
        yield listener
    finally:
        hub.remove(listener)
