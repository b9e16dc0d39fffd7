"""Free cards for a thousand pages that ask together: made once for all readers of a kind, and sent by a short way.

Django's own way costs a page more than all of this. Who may read is known from the sockets (live.py): a page that
is told of a change has one open, which looks after its session and rights. Any other request goes Django's way.
"""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, zip_longest

from channels.db import database_sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import Error
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.cache import add_never_cache_headers

from cluster import hub, lane
from cluster.inventory import FreeCards
from jobs.portal import free_cards
from jobs.portal.free_cards import Kind, QuotasLeft

TOPIC = "cards"
CALM_S = 0.25  # a storm of changes is looked at so often at most
OLD_S = 60.0  # made anew after this also where nothing was heard
QUERY = b"part=cards"  # behind the address of the first page


def before(application: lane.Application) -> lane.Application:
    """Return `application` with what a crowd asks for taken out of its way."""

    async def route(scope: lane.Message, receive: lane.Receive, send: lane.Send) -> None:
        found = await _answer(scope) if _is_asked(scope) else None
        if found is None:
            await application(scope, receive, send)
        else:
            await lane.answer_with(found, send)

    return route


def _is_asked(scope: lane.Message) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and scope["path"] == "/"
        and scope["query_string"] == QUERY
        and (b"hx-request", b"true") in scope["headers"]
    )


async def _answer(scope: lane.Message) -> HttpResponse | None:
    """Return the fragment; None where nobody known asks for it, or it cannot be made here now."""
    request = ASGIRequest(dict(scope), BytesIO())
    kind = readers.kind(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    if kind is None:
        return None
    language = translation.get_language_from_request(request)
    try:
        body = await _tiles().fragment(language, kind)
    except Error:  # the database is away: Django says so better
        return None
    headers = {"Content-Language": language, "X-Content-Type-Options": "nosniff", "Vary": "Cookie"}
    response = HttpResponse(body, headers=headers)
    add_never_cache_headers(response)
    return response


@dataclass(slots=True)
class _Session:
    kind: Kind
    sockets: int


class Readers:
    """The sessions whose pages have sockets in this process, and what each may see; of one event loop alone."""

    def __init__(self) -> None:
        """Begin with none."""
        self._sessions: dict[str, _Session] = {}

    @contextmanager
    def present(self, session_key: str | None, kind: Kind) -> Iterator[None]:
        """Answer the session for as long as this lasts, as for one more of its sockets."""
        if not session_key:
            yield
            return
        session = self._sessions.setdefault(session_key, _Session(kind, 0))
        session.kind, session.sockets = kind, session.sockets + 1
        try:
            yield
        finally:
            session.sockets -= 1
            if not session.sockets:
                del self._sessions[session_key]

    def sees(self, session_key: str | None, kind: Kind) -> None:
        """Note what a session that is present may see from now on."""
        if session_key:
            self._sessions[session_key].kind = kind

    def kind(self, session_key: str | None) -> Kind | None:
        """Return what the session may see; None where it has no socket here."""
        session = self._sessions.get(session_key) if session_key else None
        return session.kind if session else None


class Tiles:
    """The fragments of one version of the free cards, each made by whoever asks for it first."""

    def __init__(self) -> None:
        """Begin with none; the first question makes the first version."""
        self._mark: hub.Mark = None
        self._made_at = -OLD_S
        self._free: asyncio.Task[list[FreeCards]] | None = None
        self._frames: dict[tuple[str, bool], asyncio.Task[list[str]]] = {}
        self._fragments: dict[tuple[str, Kind], asyncio.Task[bytes]] = {}

    async def fragment(self, language: str, kind: Kind) -> bytes:
        """Return the fragment for a kind of reader, as of a moment after the last change; raises django.db.Error."""
        free = self._free
        if free is None or self._is_old():
            free = self._renew()
        made = self._fragments.get((language, kind))
        if made is None:
            filling = self._fill(language, kind, free)
            made = self._fragments[language, kind] = asyncio.create_task(filling)
        try:
            return await asyncio.shield(made)  # whoever hangs up breaks nothing off for the others
        except Error:
            self._free = None
            raise

    def _is_old(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now < self._made_at:
            return False  # it is read only then, and so it holds what is known by now
        return hub.heard(TOPIC, self._mark) or now > self._made_at + OLD_S

    def _renew(self) -> "asyncio.Task[list[FreeCards]]":
        """Begin a new version, soon after the last one at the earliest; return the cards that it is made of."""
        self._frames, self._fragments = {}, {}
        now = asyncio.get_running_loop().time()
        self._made_at = max(now, self._made_at + CALM_S)
        self._free = asyncio.create_task(self._load(self._made_at - now))
        return self._free

    async def _load(self, wait_s: float) -> list[FreeCards]:
        await asyncio.sleep(wait_s)
        self._mark = hub.mark()  # what is heard from here on makes it old
        return list(await database_sync_to_async(free_cards.now)())

    async def _fill(self, language: str, kind: Kind, free: "asyncio.Task[list[FreeCards]]") -> bytes:
        """Put what is left of the reader's quotas into the frame that all of his language see."""
        frame = self._frames.get((language, kind.exact))
        if frame is None:
            making = _frame(language, free, exact=kind.exact)
            frame = self._frames[language, kind.exact] = asyncio.create_task(making)
        parts = await asyncio.shield(frame)
        return bytes(await database_sync_to_async(_filled)(language, kind, free.result(), parts))


async def _frame(language: str, free: "asyncio.Task[list[FreeCards]]", *, exact: bool) -> list[str]:
    return list(await database_sync_to_async(_parts)(language, await asyncio.shield(free), exact))


def _parts(language: str, free: list[FreeCards], exact: bool) -> list[str]:
    """Return the fragment in pieces: between each two of them stand the quotas of one tile."""
    slot = uuid.uuid4().hex  # nothing that anybody named contains it
    with translation.override(language):
        regions = free_cards.tiles(free, exact=exact, slots=[slot] * len(free))
        return render_to_string("home.html#cards", {"regions": regions}).split(slot)


def _filled(language: str, kind: Kind, free: list[FreeCards], parts: list[str]) -> bytes:
    left = QuotasLeft(dict(kind.businesses))
    with translation.override(language):
        quotas = (left(one.gpu_type_id, one.region_id) for one in free)
        shown = [render_to_string("includes/quotas_left.html", {"quotas": found}) for found in quotas]
    return "".join(chain.from_iterable(zip_longest(parts, shown, fillvalue=""))).encode()


readers = Readers()
_of_loops: dict[asyncio.AbstractEventLoop, Tiles] = {}


def _tiles() -> Tiles:
    """Return the tiles of the running loop, made at the first call."""
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        for closed in [other for other in _of_loops if other.is_closed()]:
            del _of_loops[closed]
        _of_loops[loop] = Tiles()
    return _of_loops[loop]
