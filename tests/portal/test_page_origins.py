"""Which pages may open a socket: those of this site, by whatever name it goes."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from pytest_django import Settings

from taiji_site import page_origins

communicator: Any = ApplicationCommunicator  # untyped


def accepts(host: str, origin: str | None) -> bool:
    """Say whether a page of `origin` gets a socket of the server that it calls `host`."""

    async def accept(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    headers = [(b"host", host.encode())] + ([(b"origin", origin.encode())] if origin else [])

    async def ask() -> bool:
        page = communicator(page_origins.only(accept), {"type": "websocket", "path": "/", "headers": headers})
        await page.send_input({"type": "websocket.connect"})
        return bool((await page.receive_output(60))["type"] == "websocket.accept")

    return async_to_sync(ask)()


@pytest.mark.parametrize(
    ("host", "origin", "accepted"),
    [
        ("taiji.test", "https://taiji.test", True),
        ("taiji.test:8000", "http://Taiji.test:8000", True),
        ("[::1]:8000", "http://[::1]:8000", True),
        ("taiji.test", "https://evil.test", False),
        ("taiji.test", "https://taiji.test.evil.test", False),
        ("taiji.test:8000", "http://taiji.test:9000", False),
        ("taiji.test", "null", False),
        ("taiji.test", "https://taiji.test:99999", False),
        ("taiji.test", "https://[taiji.test", False),
        ("taiji.test", None, False),
        ("", None, False),
    ],
)
def test_where_any_name_is_answered_a_page_has_to_come_from_the_name_that_it_calls(
    host: str, origin: str | None, accepted: bool, settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert accepts(host, origin) is accepted


@pytest.mark.parametrize(
    ("host", "origin", "accepted"),
    [
        ("taiji.test", "https://taiji.test", True),
        ("web:8000", "https://taiji.test", True),  # the proxy asks by its own name
        ("web:8000", "https://a.example.com", True),
        ("web:8000", "http://a.example.com", False),
        ("evil.test", "https://evil.test", False),  # a name of theirs that leads here
    ],
)
def test_where_names_are_given_those_and_trusted_origins_are_ours(
    host: str, origin: str, accepted: bool, settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["taiji.test", "web"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://*.example.com"]
    assert accepts(host, origin) is accepted
