"""Who asks where no socket says so: pages poll where sockets are blocked, and a thousand of them do so all the time."""

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.auth.models import User
from django.db import Error
from django.utils.crypto import constant_time_compare

from cluster import threads
from jobs.portal.readers import Browser, Reader, reader_of, readers
from quotas import still_in
from quotas.sessions import SessionStore

MOST_REMEMBERED = 10_000  # sessions

_users: dict[str, User] = {}  # by session, as they were read last; none is believed without a look


async def reader(browser: Browser) -> Reader | None:
    """Return who asks, from his socket or else from his session; None: Django has to say what is the matter."""
    key = browser.session_key or ""
    if present := readers.of(key):
        return present
    if not key.isascii() or not key.isalnum():
        return None
    try:
        return await threads.run_for_pages(_look_up, key)
    except Error:  # the database is away
        return None


def _look_up(session_key: str) -> Reader | None:
    """Return who is logged in with a session: three queries written already for one that was seen before."""
    user = _users.get(session_key)
    if user is None or not still_in.is_as_read(user, session_key):
        _users.pop(session_key, None)
        user = _logged_in(session_key)
        if user is None:
            return None
        if len(_users) >= MOST_REMEMBERED:
            _users.clear()
        _users[session_key] = user
    return reader_of(user)


def _logged_in(session_key: str) -> User | None:
    """Do what django.contrib.auth.get_user does, but for what it changes: it ends sessions, and gives them new keys."""
    session = SessionStore(session_key)
    backend = session.get(BACKEND_SESSION_KEY)
    if backend not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = load_backend(backend).get_user(session[SESSION_KEY])
    same = user is not None and constant_time_compare(
        session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()
    )
    return user if same else None
