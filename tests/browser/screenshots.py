"""Pictures of all pages, any two of language, theme and width together: `python -m tests.browser.screenshots`."""

import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests import valkey
from tests.browser import pages
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.data import ROOT
from tests.browser.site import Site

FOLDER = ROOT / "docs" / "screenshots"
Theme = Literal["light", "dark"]
# All eight together say little more, and are twice as much to keep.
WAYS: tuple[tuple[str, Theme, str], ...] = (
    ("en", "light", "wide"),
    ("en", "dark", "narrow"),
    ("zh", "dark", "wide"),
    ("zh", "light", "narrow"),
)
LANGUAGES = {"en": "en-US", "zh": "zh-CN"}
WIDTHS = {"wide": 1280, "narrow": 390}
COLOURS = 128
TALLEST = 2400  # pixels: the rest of a long list looks like its beginning
SETTLED_MS = 800  # charts are drawn and the socket is open


def main(folder: Path) -> None:
    """Take them all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="taiji-pictures-", dir="/tmp") as data:
        server = valkey.start(Path(data))
        site = Site(Path(data), f"unix://{server.unix_socket_path}")
        try:
            ids = pages.prepare(site)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
                for path in _pictures(browser, site, ids, folder):
                    print(path.relative_to(folder))
                browser.close()
        finally:
            site.stop()
            server.stop()


def _pictures(browser: Browser, site: Site, ids: pages.Ids, folder: Path) -> Iterator[Path]:
    for language, theme, width in WAYS:
        context = browser.new_context(
            viewport={"width": WIDTHS[width], "height": 800},
            locale=LANGUAGES[language],
            color_scheme=theme,
            reduced_motion="reduce",
        )
        page = context.new_page()
        for look in pages.visits(page, site, ids, unfolded=False):
            page.wait_for_timeout(SETTLED_MS)
            path = folder / f"{look.name}-{language}-{theme}-{width}.png"
            _save(page.screenshot(full_page=look.tall), path)
            yield path
        context.close()


def _save(picture: bytes, path: Path) -> None:
    """Write a picture in so few colours as a page has: a third of the bytes."""
    whole = Image.open(BytesIO(picture)).convert("RGB")
    seen = whole.crop((0, 0, whole.width, min(whole.height, TALLEST)))
    few = seen.quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("There is no chromium on this machine: apt-get install chromium.")
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
