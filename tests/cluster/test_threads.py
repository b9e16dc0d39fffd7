"""The database's threads keep their connection, and let go of one that failed."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from cluster import threads


@pytest.fixture(autouse=True)
def _a_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in a thread of our own, as outside of tests."""
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(threads, "pool", pool)
        yield


@pytest.mark.parametrize("failed", [False, True])
def test_only_a_connection_that_failed_is_closed(monkeypatch: pytest.MonkeyPatch, failed: bool) -> None:
    closed: list[bool] = []
    connection = SimpleNamespace(errors_occurred=False, close=lambda: closed.append(True))
    monkeypatch.setattr(threads, "connection", connection)

    def work() -> None:
        connection.errors_occurred = failed
        if failed:
            raise RuntimeError

    result = asyncio.run(_settled(work))
    assert isinstance(result, RuntimeError) == failed
    assert bool(closed) == failed


async def _settled(work: Callable[[], None]) -> object:
    return (await asyncio.gather(threads.run(work), return_exceptions=True))[0]


def test_the_loop_goes_on_meanwhile() -> None:
    async def story() -> None:
        loop, started = asyncio.get_running_loop(), asyncio.Event()

        async def released() -> str:
            await started.wait()
            return "done"

        def work() -> str:
            loop.call_soon_threadsafe(started.set)
            return asyncio.run_coroutine_threadsafe(released(), loop).result(5)

        assert await threads.run(work) == "done"

    asyncio.run(story())
