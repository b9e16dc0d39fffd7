"""A change of the free cards on its way to a thousand open first pages: how long until each of them shows it.

A real server, Valkey and database; a socket per page, of people of several businesses in two languages. A host is
cordoned and let back; each page that is told so asks for its part as it would in a browser, after the pause that the
server told it, on a connection of its own, and has to get the new figure. At the end the same with a part that is
made for each page alone.
"""

import asyncio
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect

from tests import valkey
from tests.browser.site import Site

SOCKETS = 1000
BUSINESSES, USERS = 20, 40  # users are spread over the businesses, pages over the users
LANGUAGES = ("en", "zh-hans")
AT_ONCE = 20  # sockets that are opened together
ROUNDS = 20
PAUSE_S = 2.0
LONGEST_S = 300  # that a round may take, on a machine that is busy with other things
WARM_ROUNDS = 5  # after these, what the server's memory grows by is counted
SHARED = "/?part=cards"
ALONE = "/tasks/1/"  # one task's page, its changing part: the dearest of what pages ask for
FIGURE = re.compile(rb'title="M40">.*?class="h1[^>]*>(.*?)<', re.DOTALL)  # free M40 cards, in either language


@dataclass(slots=True)
class Page:
    """One open page."""

    socket: ClientConnection
    cookies: str
    heard_s: float = 0.0  # since the change
    shown_s: float = 0.0


@dataclass(slots=True)
class Round:
    """One change, and how far it came."""

    topic: str
    fetch: Callable[[Page], Awaitable[None]]
    began: float = 0.0
    spread_ms: float = 0.0
    left: int = SOCKETS
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Crowd:
    """All the pages."""

    site: Site
    pages: list[Page] = field(default_factory=list)
    now: Round | None = None

    async def listen(self, page: Page, group: asyncio.TaskGroup) -> None:
        """Let the page ask whenever it hears of what the round changed."""
        async for text in page.socket:
            message = json.loads(text)
            if self.now is not None and self.now.began and self.now.topic in message["changed"]:
                page.heard_s = time.perf_counter() - self.now.began
                group.create_task(self._ask(page, self.now, message["spread_ms"][self.now.topic]))

    async def _ask(self, page: Page, now: Round, spread_ms: float) -> None:
        now.spread_ms = spread_ms
        await asyncio.sleep(random.uniform(0, spread_ms / 1000))
        await now.fetch(page)
        page.shown_s = time.perf_counter() - now.began
        now.left -= 1
        if not now.left:
            now.over.set()

    async def hear(
        self, topic: str, change: Callable[[], None], fetch: Callable[[Page], Awaitable[None]]
    ) -> Round:
        """Make one change, and wait until all pages show it."""
        self.now = Round(topic, fetch)
        self.now.began = time.perf_counter()
        await asyncio.to_thread(change)
        await asyncio.wait_for(self.now.over.wait(), LONGEST_S)
        found, self.now = self.now, None
        return found


def run() -> dict[str, float | int]:
    """Open the pages, change something again and again, and measure."""
    with tempfile.TemporaryDirectory(prefix="taiji-bench-") as folder:
        server = valkey.start(Path(folder))
        data = Path(folder) / "data"
        data.mkdir()
        try:
            site = Site(data, f"unix://{server.unix_socket_path}")
            try:
                site.deed("fleet")
                os.environ |= site.env
                import django

                django.setup()
                return asyncio.run(_measure(site, list(_sessions())))
            finally:
                site.stop()
        finally:
            server.stop()


def _sessions() -> Iterator[str]:
    """Give the cookies of people who are logged in."""
    from django.test import Client

    from tests.world import World

    world = World()
    for number in range(BUSINESSES):
        world.business(f"b{number}", P40=8 + number, M40=4)
    for number in range(USERS):
        browser = Client()
        browser.force_login(world.user(f"u{number}", "ads", f"b{number % BUSINESSES}"))
        for language in LANGUAGES:
            yield f"sessionid={browser.cookies['sessionid'].value}; django_language={language}"


async def _measure(site: Site, sessions: list[str]) -> dict[str, float | int]:
    crowd = Crowd(site)
    heard: list[float] = []
    shown: list[float] = []
    worked: list[float] = []
    async with asyncio.TaskGroup() as group:
        await _open(crowd, sessions, group)
        for number in range(ROUNDS):
            await asyncio.sleep(PAUSE_S)
            away, worked_s = number % 2 == 0, _worked_s(site.pid)
            await crowd.hear("cards", _cordon if away else _let_back, _fetches(site, b"0" if away else b"4"))
            heard += [page.heard_s for page in crowd.pages]
            shown += [page.shown_s for page in crowd.pages]
            worked.append(_worked_s(site.pid) - worked_s)
            if number == WARM_ROUNDS:
                warm_mib = _memory_mib(site.pid, "VmRSS")
        grown_mib = _memory_mib(site.pid, "VmRSS") - warm_mib
        alone = await crowd.hear("task.1", _touch_task, _fetches_alone(site))
        await asyncio.gather(*(page.socket.close() for page in crowd.pages))
    return {
        "sockets": SOCKETS,
        **_quantiles("", shown),
        **_quantiles("hint_", heard),
        "worked_ms": round(statistics.median(worked) * 1000),
        "peak_mib": round(_memory_mib(site.pid, "VmHWM")),
        "grown_mib": round(grown_mib, 1),
        **_quantiles("alone_", [page.shown_s for page in crowd.pages]),
        "alone_spread_ms": round(alone.spread_ms),
    }


async def _open(crowd: Crowd, sessions: list[str], group: asyncio.TaskGroup) -> None:
    address = crowd.site.url.replace("http", "ws", 1) + "/ws/live/?topic=cards&topic=tasks&topic=task.1"
    for start in range(0, SOCKETS, AT_ONCE):
        cookies = [sessions[number % len(sessions)] for number in range(start, start + AT_ONCE)]
        sockets = await asyncio.gather(*(_socket(address, crowd.site.url, one) for one in cookies))
        crowd.pages += [Page(socket, one) for socket, one in zip(sockets, cookies, strict=True)]
    for page in crowd.pages:
        group.create_task(crowd.listen(page, group))
    await asyncio.sleep(PAUSE_S)  # the first message, which tells all to look once, is over


async def _socket(address: str, origin: str, cookies: str) -> ClientConnection:
    headers = {"Cookie": cookies, "Origin": origin}
    return await connect(
        address, additional_headers=headers, compression=None, open_timeout=60, ping_interval=None
    )


def _fetches(site: Site, figure: bytes) -> Callable[[Page], Awaitable[None]]:
    """Return what a page does: ask for the tiles, and find the figure in them."""

    async def fetch(page: Page) -> None:
        found = FIGURE.search(await _get(site, SHARED, page.cookies))
        assert found is not None
        assert found[1] == figure, f"{found[1]!r} is the figure of before"

    return fetch


def _fetches_alone(site: Site) -> Callable[[Page], Awaitable[None]]:
    async def fetch(page: Page) -> None:
        assert b'id="live"' in await _get(site, ALONE, page.cookies)

    return fetch


async def _get(site: Site, path: str, cookies: str) -> bytes:
    """Return the answer to a question of htmx, asked on a connection of its own: a client's own cost stays small."""
    where = urlsplit(site.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    lines = (f"GET {path} HTTP/1.1", f"Host: {where.netloc}", f"Cookie: {cookies}", "HX-Request: true")
    writer.write("\r\n".join((*lines, "Connection: close", "", "")).encode())
    answer = await reader.read(-1)
    writer.close()
    head, _blank, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    return body


def _cordon() -> None:
    _move("ready", "cordoned")


def _let_back() -> None:
    _move("cordoned", "ready")


def _move(old: str, new: str) -> None:
    from cluster import host_moves
    from cluster.host_states import State
    from cluster.models import Host

    assert host_moves.move(Host.objects.get(name="gpu-3").pk, State(old), State(new), reason="bench")


def _touch_task() -> None:
    from cluster import hints

    hints.publish("task.1")


def _worked_s(pid: int) -> float:
    """Return how long processors have worked for the server: what a round takes where nothing else runs."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _quantiles(prefix: str, seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {f"{prefix}p50_ms": round(cuts[49] * 1000, 1), f"{prefix}p99_ms": round(cuts[98] * 1000, 1)}


def _memory_mib(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024
