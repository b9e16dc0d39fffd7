"""Every page of the portal can be read by everybody, at any width, and nothing complains on the way."""

from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser import pages
from tests.browser.site import Site


@pytest.fixture(scope="module")
def ids(site: Site) -> pages.Ids:
    return pages.prepare(site)


@pytest.mark.parametrize(
    ("theme", "language", "width"), [("light", "en-US", 1280), ("dark", "zh-CN", 360)], ids=["wide", "phone"]
)
def test_every_page_can_be_read_by_everybody_fits_and_complains_of_nothing(
    browser: Browser,
    site: Site,
    ids: pages.Ids,
    theme: Literal["light", "dark"],
    language: str,
    width: int,
) -> None:
    context = browser.new_context(
        color_scheme=theme,
        reduced_motion="reduce",
        locale=language,
        viewport={"width": width, "height": 800},
    )
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda line: said.append(line.text) if line.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    faults = []
    for look in pages.visits(page, site, ids, unfolded=True):
        found = [*(_reading(page, theme) if look.portal else ()), *([] if look.refused else said)]
        faults += [f"{look.name}: {fault}" for fault in found]
        said.clear()
    context.close()
    assert faults == []


def _reading(page: Page, theme: str) -> list[str]:
    """Return what keeps somebody from reading the page."""
    found = []
    if page.evaluate("document.documentElement.dataset.bsTheme") != theme:
        found.append("another theme")
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append("too wide")
    for fault in Axe().run(page).response["violations"]:
        found += [f"{fault['id']}: {node['html'][:160]}: {node['failureSummary']}" for node in fault["nodes"]]
    return found
