"""What every test stands on: throw-away keys and folders, and a small world to build on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.db import connections
from pytest_django import Settings

from cluster import fresh, threads
from jobs.engine import rehearsal
from quotas import audit
from tests.world import World

pytest_plugins = ["tests.valkey"]


@pytest.fixture(scope="session")
def no_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder without any file: what serves static files looks at all that is in theirs."""
    return tmp_path_factory.mktemp("static")


@pytest.fixture(autouse=True)
def _own_settings(
    settings: Settings, tmp_path: Path, no_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give each test its own keys and folders, so that none reads what another wrote."""
    settings.VAULT_KEYS = [Fernet.generate_key().decode()]
    settings.JOIN_TOKEN = "join-token-of-the-test"
    settings.TASK_LOG_DIR = tmp_path / "task-logs"
    settings.CODE_DIR = tmp_path / "code"
    settings.STATIC_ROOT = no_files
    monkeypatch.setattr(threads, "pool", None)  # another thread would not see the test's transaction
    monkeypatch.setattr(rehearsal, "_kept", None)  # another test's database was another one
    fresh.forget_all()
    settings.REDIS_URL = f"unix://{tmp_path}/no-valkey.sock"  # hints go nowhere unless a test starts a Valkey


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Keep SQLite's test database in a file: one in memory has other locks, and threads fail on them."""
    database = connections.databases["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")


@pytest.fixture(autouse=True)
def _audit_can_be_emptied(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test that commits be cleaned up: its tables are emptied at the end, and the audit refuses that.

    The next migration signal, which follows the emptying, guards it again.
    """
    marked = request.node.get_closest_marker("django_db")
    commits = bool(marked and marked.kwargs.get("transaction")) or bool(
        {"transactional_db", "live_server"} & set(request.fixturenames)
    )
    if not commits:
        yield
        return
    request.getfixturevalue("_django_db_helper")  # which empties them, and so has to end after this
    yield
    audit.unprotect()


@pytest.fixture
def world(db: None) -> World:
    """Return an empty world on the database."""
    return World()
