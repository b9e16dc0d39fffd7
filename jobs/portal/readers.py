"""Who is present: the sessions whose pages have sockets in this process, and what each may see.

The sockets look after the sessions and rights of their users (live.py), so that what is asked for beside them is
answered without asking the database who asks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, parse_cookie
from django.utils import translation

from cluster import lane
from jobs.portal.free_cards import Kind
from quotas import access
from quotas.models import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A user, and all that decides what he may see."""

    user_id: int
    kind: Kind
    leads: frozenset[int]  # businesses whose tasks are his to steer
    operates: bool  # the platform: all tasks are
    user: User = field(compare=False, repr=False)  # as he was read then


def reader_of(user: User) -> Reader:
    """Return what `user` is as a reader; one query."""
    found = Member.objects.filter(user=user.pk).order_by("business__flag")
    mine = list(found.values_list("business", "business__flag", "role"))
    businesses = tuple((pk, flag) for pk, flag, _role in mine)
    return Reader(
        user_id=user.pk,
        kind=Kind(exact=access.sees_all(user), businesses=businesses),
        leads=frozenset(pk for pk, _flag, role in mine if role == Member.Role.LEAD),
        operates=access.is_operator(user),
        user=user,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """What the headers of a question say of who asks."""

    session_key: str | None
    secret: str | None  # by which its forms are known
    language: str


def browser_of(scope: lane.Message) -> Browser:
    """Return who asks."""
    found = {b"cookie": b"", b"accept-language": b""} | dict(scope["headers"])
    return _browser(found[b"cookie"], found[b"accept-language"])


@lru_cache(4096)
def _browser(cookies: bytes, languages: bytes) -> Browser:
    request = HttpRequest()
    request.COOKIES = parse_cookie(cookies.decode("latin-1"))
    request.META["HTTP_ACCEPT_LANGUAGE"] = languages.decode("latin-1")
    return Browser(
        session_key=request.COOKIES.get(settings.SESSION_COOKIE_NAME),
        secret=request.COOKIES.get(settings.CSRF_COOKIE_NAME),
        language=translation.get_language_from_request(request),
    )


@dataclass(slots=True)
class _Session:
    reader: Reader
    sockets: int


class Readers:
    """The sessions that are present; of one event loop alone."""

    def __init__(self) -> None:
        """Begin with none."""
        self._sessions: dict[str, _Session] = {}

    @contextmanager
    def present(self, session_key: str | None, reader: Reader) -> Iterator[None]:
        """Answer the session for as long as this lasts, as for one more of its sockets."""
        if not session_key:
            yield
            return
        session = self._sessions.setdefault(session_key, _Session(reader, 0))
        session.reader, session.sockets = reader, session.sockets + 1
        try:
            yield
        finally:
            session.sockets -= 1
            if not session.sockets:
                del self._sessions[session_key]

    def sees(self, session_key: str | None, reader: Reader) -> None:
        """Note what a session that is present may see from now on."""
        session = self._sessions.get(session_key) if session_key else None
        if session:
            session.reader = reader

    def of(self, session_key: str | None) -> Reader | None:
        """Return who has the session; None where it has no socket here."""
        session = self._sessions.get(session_key) if session_key else None
        return session.reader if session else None

    def businesses(self) -> set[int]:
        """Return the businesses of all who are present."""
        return {pk for session in self._sessions.values() for pk, _flag in session.reader.kind.businesses}


readers = Readers()
