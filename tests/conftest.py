"""What every test stands on: throw-away keys and folders, and a small world to build on."""

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from asgiref.sync import SyncToAsync
from cryptography.fernet import Fernet
from django.db import connections
from django.test import TransactionTestCase
from pytest_django import Settings

from cluster import clock, fresh, threads
from jobs.engine import hosts_for, rehearsal
from tests import emptying
from tests.world import World

pytest_plugins = ["tests.valkey"]
QUICK = "django.contrib.auth.hashers.MD5PasswordHasher"  # of passwords: the others take long by design

# The same examples each time: a change is refused for what it breaks, not for what was drawn today.
hypothesis.settings.register_profile("same", derandomize=True, database=None, deadline=None)
# Others each time, and those that failed once more: `script/test --explore MINUTES`.
hypothesis.settings.register_profile("explore", derandomize=False, deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")


@pytest.fixture(scope="session")
def no_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder without any file: what serves static files looks at all that is in theirs."""
    return tmp_path_factory.mktemp("static")


@pytest.fixture(autouse=True)
def _own_settings(
    settings: Settings, tmp_path: Path, no_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give each test its own keys and folders, so that none reads what another wrote."""
    settings.PASSWORD_HASHERS = [QUICK]
    settings.VAULT_KEYS = [Fernet.generate_key().decode()]
    settings.JOIN_TOKEN = "join-token-of-the-test"
    settings.TASK_LOG_DIR = tmp_path / "task-logs"
    settings.CODE_DIR = tmp_path / "code"
    settings.STATIC_ROOT = no_files
    monkeypatch.setattr(threads, "pool", None)  # another thread would not see the test's transaction
    monkeypatch.setattr(clock, "follows", False)  # what moves this process's clock is meant to be seen
    monkeypatch.setattr(clock, "_last", None)  # nor has it looked yet, if a test lets it
    monkeypatch.setattr(clock, "_next_at", 0.0)
    monkeypatch.setattr(rehearsal, "_kept", None)  # another test's database was another one
    monkeypatch.setattr(hosts_for, "_look", hosts_for._Look())
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


@pytest.fixture(scope="session", autouse=True)
def _empty_what_was_written() -> Iterator[None]:
    """Have a test that commits be cleaned up in our way, not by a flush of all tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _test: _clean_up())
        yield


def _clean_up() -> None:
    # Where a test runs a loop by itself, Django works in this one thread, which keeps its connection for ever.
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()
    emptying.empty()
    connections.close_all()  # the tests after this one may have no business with a database, and be refused an open one


@pytest.fixture
def world(db: None) -> World:
    """Return an empty world on the database."""
    return World()
