"""What `script/test` asks of pytest: skips may count as failures, and which tests run on which database."""

from pathlib import Path

import pytest

from launch.places import ROOT

# Tests of the database run on SQLite and on PostgreSQL. These take long for another reason, and use it by one
# connection in one transaction, without locks or threads: once is enough, on the stricter of the two.
ON_POSTGRESQL_ALONE = (
    "tests/kubernetes",  # an API server, kubelets and processes beside it
    "tests/api/test_whole_schema.py",  # some hundred calls for each of five roles
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the options."""
    parser.addoption("--no-skips", action="store_true", help="fail where a test was skipped")
    parser.addoption("--only-database", action="store_true", help="run only the tests that use the database")
    parser.addoption(
        "--not-on-two", action="store_true", help="leave out what PostgreSQL alone is enough for"
    )
    parser.addoption("--only-drawn", action="store_true", help="run only the files whose tests draw examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what was asked for."""
    if config.getoption("--only-database"):
        _keep(config, items, [item for item in items if _uses_database(item)])
    if config.getoption("--not-on-two"):
        _keep(config, items, [item for item in items if not (_uses_database(item) and _is_left(item.path))])
    if config.getoption("--only-drawn"):
        _keep(config, items, [item for item in items if _draws(item)])


def _keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _is_left(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / one) for one in ON_POSTGRESQL_ALONE)


def _draws(item: pytest.Item) -> bool:
    module = item.getparent(pytest.Module)
    used = vars(module.obj).values() if module else ()
    return any(str(getattr(value, "__module__", "")).startswith("hypothesis.") for value in used)


def _uses_database(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(fixtures & {"db", "transactional_db"}) or item.get_closest_marker("django_db") is not None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped something, where that was asked; the skipped are listed by name (`-ra`)."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
