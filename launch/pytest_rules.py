"""What `script/test` asks of pytest: skips may count as failures, and which tests run on which database."""

import pytest

from launch.places import ROOT

# Tests of the database run on SQLite and on PostgreSQL. Those of a place named here run on PostgreSQL alone, the
# stricter of the two, and so do tests marked `postgresql_alone`: they take long for another reason than the database.
# Where it is about pages and calls two databases cost little (0.03 s a test), and both are somebody's.
ON_POSTGRESQL_ALONE = {
    "tests/kubernetes": "an API server, kubelets and processes beside it are what takes the time",
    "tests/api/test_whole_schema.py": "some hundred calls for each of five roles, in one transaction",
}


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
        _keep(config, items, [item for item in items if not (_uses_database(item) and runs_once(item))])
    if config.getoption("--only-drawn"):
        _keep(config, items, [item for item in items if _draws(item)])


def _keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def runs_once(item: pytest.Item) -> bool:
    """Say whether PostgreSQL alone is enough for a test that uses the database."""
    named = any(item.path.is_relative_to(ROOT / place) for place in ON_POSTGRESQL_ALONE)
    return named or item.get_closest_marker("postgresql_alone") is not None


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
