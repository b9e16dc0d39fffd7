"""The short way of the API: what Django's own way does, it does too."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.db import connection
from django.test import Client

from cluster import logs, threads, whole
from jobs.api import lane
from jobs.models import Task
from taiji_site.asgi import application
from tests.api.conftest import Caller, run
from tests.world import World

communicator: Any = ApplicationCommunicator  # untyped
pytestmark = pytest.mark.django_db(transaction=True)


def ask(path: str, *, token: str = "", method: str = "GET", body: bytes = b"", **headers: str) -> Any:
    """Make one call of the real application; return (status, headers, body)."""
    pairs = [(b"host", b"testserver"), (b"content-type", b"application/json")]
    pairs += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    pairs += [(b"authorization", f"Token {token}".encode())] if token else []
    where, _mark, query = path.partition("?")
    scope = {
        **{"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "root_path": ""},
        **{"path": f"/api/v1/{where}", "raw_path": b"", "query_string": query.encode(), "headers": pairs},
        **{"client": ("127.0.0.1", 1), "server": ("testserver", 80), "asgi": {"version": "3.0"}},
    }

    async def asking() -> Any:
        call: Any = communicator(application, scope)
        await call.send_input({"type": "http.request", "body": body})
        start = await call.receive_output(10)
        names = [name for name, _value in start["headers"] if name != b"set-cookie"]
        assert len(names) == len(set(names)), "proxies and strict clients refuse a length that comes twice"
        parts = [await call.receive_output(10)]
        while parts[-1].get("more_body"):
            parts.append(await call.receive_output(10))
        return start["status"], dict(start["headers"]), b"".join(part["body"] for part in parts)

    return async_to_sync(asking)()


def test_a_call_is_answered_with_the_headers_of_every_page(ann: Caller) -> None:
    status, headers, body = ask("me/", token=ann.token)
    assert (status, b'"user":"ann"' in body) == (200, True)
    assert headers[b"content-length"] == str(len(body)).encode()
    assert b"content-security-policy" in headers
    assert headers[b"x-content-type-options"] == b"nosniff"


def test_its_language_is_the_callers(ann: Caller) -> None:
    _status, headers, body = ask("nowhere/", token=ann.token, accept_language="zh-hans")
    assert (headers[b"content-language"], body.isascii()) == (b"zh-hans", False)


def test_a_long_log_is_sent_piece_by_piece(ann: Caller, world: World) -> None:
    task = world.task(state="running")
    member = run(task, "h1", 0)
    for part in range(2):
        logs.append(member.pk, part * logs.PART_AT_MOST, b"x" * logs.PART_AT_MOST)
    _status, headers, body = ask(f"tasks/{task.pk}/log/", token=ann.token)
    assert len(body) == 2 * logs.PART_AT_MOST == int(headers[b"content-length"])


def test_what_nobody_foresaw_is_answered_in_the_one_form(ann: Caller) -> None:
    with patch("jobs.api.rows.many", side_effect=RuntimeError("s3cr3t inside")):
        status, headers, body = ask("tasks/", token=ann.token)
    assert (status, headers[b"content-type"]) == (500, b"application/json")
    assert b'"code":"error"' in body
    assert b"s3cr3t" not in body


def test_a_session_needs_the_token_of_its_forms(ann: Caller) -> None:
    browser = Client()
    browser.force_login(ann.user)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"
    assert ask("me/", cookie=cookie)[0] == 200
    status, _headers, body = ask("tasks/", method="POST", body=b"{}", cookie=cookie)
    assert (status, b"CSRF" in body) == (403, True)
    assert not Task.objects.exists()


def test_a_thread_keeps_its_connection_and_makes_a_dead_one_anew(
    ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(threads, "pool", pool)
        monkeypatch.setattr(lane, "_pool", pool)

        def held() -> Any:
            return pool.submit(lambda: (threading.get_ident(), connection.connection)).result()

        assert ask("me/", token=ann.token)[0] == 200
        first = held()
        assert ask("me/", token=ann.token)[0] == 200
        assert held() == first
        monkeypatch.setattr(whole, "RESTED_S", -1.0)
        if connection.vendor == "postgresql":  # a file does not go away
            pool.submit(lambda: connection.connection.close()).result()  # as a server that was restarted does
        assert ask("me/", token=ann.token)[0] == 200
        pool.submit(lambda: connection.close()).result()  # its own, and not that of this thread
