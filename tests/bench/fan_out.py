"""A change on its way to a thousand open pages: how long until each hears of it, and until each has asked.

A real server and Valkey, and a real socket per page; then each page asks for its part of the page as it would in
a browser, after the pause that the server told it.
"""

import asyncio
import json
import random
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import redis
from websockets.asyncio.client import ClientConnection, connect

from cluster.hints import CHANNEL
from tests import valkey
from tests.browser.site import Site

SOCKETS = 1000
AT_ONCE = 20  # that are opened together
ROUNDS = 30
PAUSE_S = 1.0
TOPIC = "tasks"
WARM_ROUNDS = 5  # after these, what the server's memory grows by is counted
ASKING_ROUNDS = 1  # in which each page asks as well
ASKS_AT_ONCE = 100  # connections of the machine that stands for all the browsers
PART = "/tasks/1/"  # one task's page, its changing part: the dearest of what pages ask for


@dataclass(slots=True)
class Crowd:
    """All the pages."""

    sockets: list[ClientConnection] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)  # seconds since the change, of each page in this round
    spread_ms: float = 0.0
    since: float = 0.0  # when the change was published; 0: none was
    all_heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, socket: ClientConnection) -> None:
        """Note when the socket hears of the change."""
        async for text in socket:
            message = json.loads(text)
            if self.since and TOPIC in message["changed"]:
                self.heard.append(time.perf_counter() - self.since)
                self.spread_ms = message["spread_ms"]
                if len(self.heard) == len(self.sockets):
                    self.all_heard.set()

    async def hear(self, news: redis.Redis) -> list[float]:
        """Publish one change and wait until all have heard; return the seconds that each took."""
        self.heard, self.all_heard = [], asyncio.Event()
        self.since = time.perf_counter()
        await asyncio.to_thread(news.publish, CHANNEL + TOPIC, b"")
        await asyncio.wait_for(self.all_heard.wait(), 30)
        self.since = 0.0
        return self.heard


def run() -> dict[str, float | int]:
    """Open the pages, change something again and again, and measure."""
    with tempfile.TemporaryDirectory(prefix="taiji-bench-") as folder:
        server = valkey.start(Path(folder))
        data = Path(folder) / "data"
        data.mkdir()
        try:
            site = Site(data, f"unix://{server.unix_socket_path}")
            try:
                return asyncio.run(_measure(site, redis.Redis.from_url(f"unix://{server.unix_socket_path}")))
            finally:
                site.stop()
        finally:
            server.stop()


async def _measure(site: Site, news: redis.Redis) -> dict[str, float | int]:
    cookies = _log_in(site)
    crowd = Crowd()
    async with asyncio.TaskGroup() as group:
        await _open(crowd, site, cookies, group)
        heard: list[float] = []
        for number in range(ROUNDS):
            heard += await crowd.hear(news)
            if number == WARM_ROUNDS:
                warm_mib = _memory_mib(site.pid, "VmRSS")
            await asyncio.sleep(PAUSE_S)
        grown_mib = _memory_mib(site.pid, "VmRSS") - warm_mib
        asked = [took for _ in range(ASKING_ROUNDS) for took in await _ask(crowd, site, cookies, news)]
        await asyncio.gather(*(socket.close() for socket in crowd.sockets))
    return {
        "sockets": SOCKETS,
        **_quantiles("", heard),
        "peak_mib": round(_memory_mib(site.pid, "VmHWM")),
        "grown_mib": round(grown_mib, 1),
        "spread_ms": round(crowd.spread_ms),
        **_quantiles("asked_", asked),
    }


def _log_in(site: Site) -> str:
    """Return the cookies of somebody who is logged in."""
    with httpx.Client(base_url=site.url) as browser:
        token = browser.get("/login/").cookies["csrftoken"]
        form = {"username": "ann", "password": "ann", "csrfmiddlewaretoken": token}
        browser.post("/login/", data=form, headers={"Referer": site.url})
        return f"sessionid={browser.cookies['sessionid']}"


async def _open(crowd: Crowd, site: Site, cookies: str, group: asyncio.TaskGroup) -> None:
    address = site.url.replace("http", "ws", 1) + f"/ws/live/?topic={TOPIC}&topic=task.1"
    headers = {"Cookie": cookies, "Origin": site.url}
    for _ in range(SOCKETS // AT_ONCE):
        opening = (
            connect(
                address, additional_headers=headers, compression=None, open_timeout=60, ping_interval=None
            )
            for _ in range(AT_ONCE)
        )
        crowd.sockets += await asyncio.gather(*opening)
    for socket in crowd.sockets:
        group.create_task(crowd.listen(socket))
    await asyncio.sleep(2 * PAUSE_S)  # the first message, which tells all to look once, is over


async def _ask(crowd: Crowd, site: Site, cookies: str, news: redis.Redis) -> list[float]:
    """Return the seconds from a change until each page has its part, the pauses included."""
    began = time.perf_counter()
    await crowd.hear(news)
    # Shorter than the server keeps a connection: else one closes while it is taken.
    limits = httpx.Limits(max_connections=ASKS_AT_ONCE, keepalive_expiry=2)
    headers = {"Cookie": cookies, "HX-Request": "true"}
    async with httpx.AsyncClient(base_url=site.url, headers=headers, limits=limits, timeout=60) as browser:

        async def ask() -> float:
            await asyncio.sleep(random.uniform(0, crowd.spread_ms / 1000))
            (await browser.get(PART)).raise_for_status()
            return time.perf_counter() - began

        return list(await asyncio.gather(*(ask() for _ in crowd.sockets)))


def _quantiles(prefix: str, seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {f"{prefix}p50_ms": round(cuts[49] * 1000, 1), f"{prefix}p99_ms": round(cuts[98] * 1000, 1)}


def _memory_mib(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024
