"""A change on its way to a thousand open pages: how long until each of them shows it.

A real server, Valkey and database; a socket per page, of people of several businesses in two languages. Each page that
is told of a change asks for its part as it would in a browser, after the pause that the server told it, on a connection
of its own, and has to get what is so now. The rounds: a host is cordoned and let back, and all have the first page
open; a task is held and released, and all have its page open, or the list of tasks; both at once, and everybody has
something else open. The pages are this process (`_pages.py`), on the same processors as the server.
"""

import asyncio
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from tests import valkey
from tests.bench._pages import Page, Part, Round
from tests.bench._web import cpu_s
from tests.browser.site import Site

PAGES = 1000
BUSINESSES, USERS = 20, 40  # users are spread over the businesses, pages over the users
LANGUAGES = ("en", "zh-hans")
AT_ONCE = 20  # sockets that are opened together
PAUSE_S = 2.0
LONGEST_S = 300  # that a round may take, on a machine that is busy with other things
ROUNDS = 12  # of one kind
WARM_ROUNDS = 4  # after these, what the server's memory grows by is counted
CARDS = Part(
    topic="cards",
    path="/?part=cards",
    says=re.compile(rb'title="M40">.*?class="h1[^>]*>(.*?)<', re.DOTALL),  # free M40 cards
)
TASK = Part(topic="task.1", path="/tasks/1/", says=re.compile(rb'class="status status-(\w+)'))
ROW = re.compile(rb'id="row-1".*?class="status status-(\w+)', re.DOTALL)
LIST = Part(topic="tasks", path="/tasks/", says=ROW, target="list")
OPEN = Part(topic="tasks", path="/tasks/?state=open", says=ROW, target="list")
OTHER = Part(topic="task.2", path="/tasks/2/")
# What a hundred people have open, in a company that works.
MIX = ((CARDS,),) * 40 + ((LIST,),) * 20 + ((OPEN,),) * 15 + ((TASK,),) * 10 + ((OTHER,),) * 15
FREE, HELD = {CARDS.path: b"4"}, {part.path: b"secondary" for part in (TASK, LIST, OPEN)}
NONE, QUEUED = {CARDS.path: b"0"}, {part.path: b"azure" for part in (TASK, LIST, OPEN)}


@dataclass(slots=True)
class Figures:
    """What pages of one kind took, over all rounds."""

    heard: list[float] = field(default_factory=list)
    shown: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)


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
                return uvloop.run(_measure(site, list(_sessions())))
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
    found: dict[str, float | int] = {"pages": PAGES, "load_before": round(os.getloadavg()[0], 1)}
    kinds = {"": [(CARDS,)], "task_": [(TASK,)], "list_": [(LIST,)], "mix_": MIX}
    for prefix, open_ones in kinds.items():
        pages = await _open(site, sessions, open_ones)
        figures, grown_mib = await _rounds(site, pages)
        found |= {
            **_quantiles(prefix, figures.shown),
            **_quantiles(f"{prefix}hint_", figures.heard),
            f"{prefix}worked_ms": round(statistics.median(figures.worked) * 1000),
            f"{prefix}pages_worked_ms": round(statistics.median(figures.own) * 1000),
            f"{prefix}spread_ms": round(max(max(page.spread_ms.values(), default=0) for page in pages)),
            f"{prefix}grown_mib": round(grown_mib, 1),
            f"{prefix}threads": round(_status(site.pid, "Threads")),
        }
        for page in pages:
            page.close()
        await asyncio.sleep(PAUSE_S)
    found["load_after"] = round(os.getloadavg()[0], 1)  # the bench itself makes about 0.5 of it
    return found | {"peak_mib": round(_status(site.pid, "VmHWM") / 1024)}


async def _open(site: Site, sessions: list[str], kinds: Sequence[tuple[Part, ...]]) -> list[Page]:
    pages = [
        Page(site.url, sessions[number % len(sessions)], *kinds[number * 37 % len(kinds)])
        for number in range(PAGES)
    ]
    for start in range(0, PAGES, AT_ONCE):
        await asyncio.gather(*(page.open() for page in pages[start : start + AT_ONCE]))
    await asyncio.sleep(PAUSE_S)  # the first message, which tells all to look once, is over
    return pages


async def _rounds(site: Site, pages: list[Page]) -> tuple[Figures, float]:
    """Change what the pages show, there and back; return the figures and by how many MiB the server grew."""
    found, warm_kib = Figures(), 0.0
    for number in range(ROUNDS):
        await asyncio.sleep(PAUSE_S)
        away = number % 2 == 0
        concerned = await _round(
            site, pages, found, (NONE | HELD) if away else (FREE | QUEUED), _change(away)
        )
        found.heard += [page.heard_s for page in concerned]
        found.shown += [page.shown_s for page in concerned]
        if number == WARM_ROUNDS:
            warm_kib = _status(site.pid, "VmRSS")
    return found, (_status(site.pid, "VmRSS") - warm_kib) / 1024


async def _round(
    site: Site, pages: list[Page], found: Figures, now: dict[str, bytes], change: Callable[[], None]
) -> list[Page]:
    """Make one change, and wait until all pages that it concerns show it; return these."""
    concerned = [page for page in pages if any(part.path in now for part in page.parts)]
    worked_s, own_s = cpu_s(site.pid), time.process_time()
    this = Round(now, time.perf_counter(), len(concerned))
    for page in pages:
        if page.lost:
            raise page.lost
        page.round, page.shown_s = this, 0.0
    await asyncio.to_thread(change)
    await asyncio.wait_for(this.over.wait(), LONGEST_S)
    for page in pages:
        page.round = None
    if this.fault:
        raise this.fault
    found.worked.append(cpu_s(site.pid) - worked_s)
    found.own.append(time.process_time() - own_s)
    return concerned


def _change(away: bool) -> Callable[[], None]:
    """Return what takes a host and a task away, or brings them back."""
    from cluster import host_moves
    from cluster.host_states import State
    from cluster.models import Host
    from jobs import services
    from jobs.models import Task

    states = (State.READY, State.CORDONED)

    def change() -> None:
        task = Task.objects.get(pk=1)
        (services.hold if away else services.release)(task, task.user)
        host = Host.objects.get(name="gpu-3").pk
        assert host_moves.move(host, *(states if away else states[::-1]), reason="bench")

    return change


def _quantiles(prefix: str, seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {f"{prefix}p50_ms": round(cuts[49] * 1000, 1), f"{prefix}p99_ms": round(cuts[98] * 1000, 1)}


def _status(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))
