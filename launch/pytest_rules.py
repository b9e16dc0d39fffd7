"""What `script/test` asks of pytest: skips may count as failures, and only the database's tests may run."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the two options."""
    parser.addoption("--no-skips", action="store_true", help="fail where a test was skipped")
    parser.addoption("--only-database", action="store_true", help="run only the tests that use the database")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that use the database, where that was asked."""
    if not config.getoption("--only-database"):
        return
    kept = [item for item in items if _uses_database(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _uses_database(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(fixtures & {"db", "transactional_db"}) or item.get_closest_marker("django_db") is not None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped something, where that was asked; the skipped are listed by name (`-ra`)."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
