"""Free cards for a thousand pages that ask together: made once for all readers of a kind, and sent by a short way.

Who may read is known from the sockets (readers.py): a page that is told of a change has one open, which looks after
its session and rights; a page without one is known by its session (looked_up.py).
"""

import asyncio
import uuid
from dataclasses import dataclass
from itertools import chain, zip_longest

from django.db import Error
from django.http import HttpResponse
from django.template.loader import get_template, render_to_string
from django.utils import translation
from django.utils.cache import add_never_cache_headers

from cluster import hub, lane, threads
from cluster.inventory import FreeCards
from jobs.portal import free_cards, looked_up
from jobs.portal.free_cards import Kind, QuotasLeft
from jobs.portal.readers import browser_of, readers

TOPIC = "cards"
CALM_S = 0.25  # a storm of changes is looked at so often on average
OLD_S = 60.0  # made anew after this also where nothing was heard
QUERY = b"part=cards"  # behind the address of the first page
HEADERS = {"X-Content-Type-Options": "nosniff", "Vary": "Cookie"}
Sent = tuple[lane.Message, lane.Message]


def before(application: lane.Application) -> lane.Application:
    """Return `application` with what a crowd asks for taken out of its way."""

    async def route(scope: lane.Message, receive: lane.Receive, send: lane.Send) -> None:
        found = await _answer(scope) if _is_asked(scope) else None
        if found is None:
            await application(scope, receive, send)
        else:
            for message in found:
                await send(message)

    return route


def _is_asked(scope: lane.Message) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and scope["path"] == "/"
        and scope["query_string"] == QUERY
        and (b"hx-request", b"true") in scope["headers"]
    )


async def _answer(scope: lane.Message) -> Sent | None:
    """Return what is sent; None where nobody known asks for it, or it cannot be made here now."""
    browser = browser_of(scope)
    reader = await looked_up.reader(browser)
    if reader is None:
        return None
    try:
        return await _tiles().fragment(browser.language, reader.kind)
    except Error:  # the database is away: Django says so better
        return None


@dataclass(frozen=True, slots=True)
class Figures:
    """What one version shows."""

    free: list[FreeCards]
    left: QuotasLeft  # of the businesses of all who were present


class Version:
    """The fragments of the free cards as of one moment, each made by whoever asks for it first."""

    def __init__(self, made_at: float) -> None:
        """Begin to read what is free at a moment of the loop's clock, now or soon."""
        self.made_at = made_at
        self.mark: hub.Mark = None
        self._is_read = False  # or being read
        self._figures = asyncio.create_task(self._load())
        self._frames: dict[tuple[str, bool], asyncio.Task[list[str]]] = {}
        self._fragments: dict[tuple[str, Kind], asyncio.Task[Sent]] = {}

    async def fragment(self, language: str, kind: Kind) -> Sent:
        """Return the fragment for a kind of reader; raises django.db.Error."""
        made = self._fragments.get((language, kind))
        if made is None:
            made = self._fragments[language, kind] = asyncio.create_task(self._fill(language, kind))
        # Whoever hangs up breaks nothing off for the others.
        return made.result() if made.done() else await asyncio.shield(made)

    def is_old(self) -> bool:
        """Say whether there may be another one by now."""
        if not self._is_read:
            return False  # so it will hold what is known by now
        return hub.heard(TOPIC, self.mark) or asyncio.get_running_loop().time() > self.made_at + OLD_S

    async def _load(self) -> Figures:
        await asyncio.sleep(self.made_at - asyncio.get_running_loop().time())
        self.mark, self._is_read = hub.mark(), True  # what is heard from here on makes it old
        return await threads.run_for_pages(_figures, readers.businesses())

    async def _fill(self, language: str, kind: Kind) -> Sent:
        """Put what is left of the reader's quotas into the frame that all of his language see."""
        figures = await asyncio.shield(self._figures)
        frame = self._frames.get((language, kind.exact))
        if frame is None:
            frame = asyncio.create_task(_frame(language, figures.free, exact=kind.exact))
            self._frames[language, kind.exact] = frame
        return await threads.run_for_pages(_filled, language, kind, figures, await asyncio.shield(frame))


class Tiles:
    """The version that is shown now."""

    def __init__(self) -> None:
        """Begin with none; the first question makes the first version."""
        self._version: Version | None = None
        self._before = 0.0  # when the version before it was made

    async def fragment(self, language: str, kind: Kind) -> Sent:
        """Return the fragment for a kind of reader, as of a moment after the last change; raises django.db.Error."""
        version = self._version
        if version is None or version.is_old():
            version = self._version = self._next(version)
        try:
            return await version.fragment(language, kind)
        except Error:
            if self._version is version:
                self._version = None
            raise

    def _next(self, last: Version | None) -> Version:
        """Return a new version, made now: one change is often told of in two pieces. A third has to wait."""
        now = asyncio.get_running_loop().time()
        made_at = max(now, self._before + 2 * CALM_S) if last else now
        self._before = last.made_at if last else 0.0
        return Version(made_at)


async def _frame(language: str, free: list[FreeCards], *, exact: bool) -> list[str]:
    return await threads.run_for_pages(_parts, language, free, exact)


def _figures(businesses: set[int]) -> Figures:
    return Figures(free_cards.now(), QuotasLeft(businesses))


def _parts(language: str, free: list[FreeCards], exact: bool) -> list[str]:
    """Return the fragment in pieces: between each two of them stand the quotas of one tile."""
    slot = uuid.uuid4().hex  # nothing that anybody named contains it
    with translation.override(language):
        regions = free_cards.tiles(free, exact=exact, slots=[slot] * len(free))
        return render_to_string("home.html#cards", {"regions": regions}).split(slot)


def _filled(language: str, kind: Kind, figures: Figures, parts: list[str]) -> Sent:
    mine = {pk for pk, _flag in kind.businesses}
    left = figures.left if mine <= figures.left.businesses else QuotasLeft(mine)  # he came since
    template = get_template("includes/quotas_left.html")
    with translation.override(language):
        shown = [template.render({"quotas": left.of(kind, one)}) for one in figures.free]
        body = "".join(chain.from_iterable(zip_longest(parts, shown, fillvalue="")))
        response = HttpResponse(body, headers={"Content-Language": language, **HEADERS})
    add_never_cache_headers(response)
    return lane.messages(response)


_of_loops: dict[asyncio.AbstractEventLoop, Tiles] = {}


def _tiles() -> Tiles:
    """Return the tiles of the running loop, made at the first call."""
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        for closed in [other for other in _of_loops if other.is_closed()]:
            del _of_loops[closed]
        _of_loops[loop] = Tiles()
    return _of_loops[loop]
