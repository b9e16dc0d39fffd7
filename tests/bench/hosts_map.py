"""The map of 20,000 cards in Chromium: from the question to the last card drawn, on SQLite."""

import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests import valkey
from tests.browser.conftest import CHROMIUM, FLAGS, log_in
from tests.browser.site import Site

CARDS, TIMES = 20_000, 15
DRAWN = f"#map[data-cards='{CARDS}']"


def run() -> dict[str, float | int]:
    """Let a browser draw the map again and again, and return what it measured."""
    if CHROMIUM is None:
        raise SystemExit("There is no chromium on this machine: apt-get install chromium.")
    with (
        tempfile.TemporaryDirectory(prefix="taiji-map-", dir="/tmp") as folder,
        sync_playwright() as playwright,
    ):
        server = valkey.start(Path(folder))
        site = Site(Path(folder), f"unix://{server.unix_socket_path}")
        try:
            site.deed("build")
            site.deed("many_hosts")
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            found = _measure(browser.new_page(), site)
            browser.close()
        finally:
            site.stop()
            server.stop()
    return found


def _measure(page: Page, site: Site) -> dict[str, float | int]:
    log_in(page, site, "root")
    answered, drawn = [], []
    for _ in range(TIMES + 1):
        page.goto(f"{site.url}/hosts/?region=Huge")
        page.locator(DRAWN).wait_for()
        times = page.locator("#map").evaluate("map => [map.dataset.answerMs, map.dataset.drawMs]")
        answered.append(float(times[0]))
        drawn.append(float(times[1]))
    del answered[0], drawn[0]  # of a server that was just started
    whole = [sum(pair) for pair in zip(answered, drawn, strict=True)]
    return {
        "cards": CARDS,
        "answer_p50_ms": statistics.median(answered),
        "draw_p50_ms": statistics.median(drawn),
        "whole_p50_ms": statistics.median(whole),
        "whole_max_ms": max(whole),
    }
