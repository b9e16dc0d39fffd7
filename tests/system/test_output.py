"""What tasks print, on the whole product: how soon a reader sees it, and what very much of it costs."""

import hashlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from launch import group
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.patience import WITHIN_S
from tests.system.product import Product, document

pytestmark = pytest.mark.system
LINE = 200 * 2**20  # bytes
END = bytes([0xC4, 0xE3, 0x0D, 0x00, 0x1B]) + b"[31m<script>end"  # after it, of a task that then fails
LINES = 25  # of which it is looked how old they are when they are seen
# Notes of each line of the log, which is the time it was printed at, how old it is when it is on the page.
LOOK = """
() => {
  const ages = (window.ages = []);
  let seen = new Set();
  const look = () => {
    const now = Date.now() / 1000;
    for (const [, said] of document.querySelector("#log-text").textContent.matchAll(/printed at ([0-9.]+)\\n/g))
      if (!seen.has(said)) { seen.add(said); ages.push(now - Number(said)); }
  };
  look();
  ages.length = 0;  // these were there before anybody looked
  const all = {childList: true, subtree: true, characterData: true};
  new MutationObserver(look).observe(document.querySelector("#log-text"), all);
}
"""


def submitted(product: Product, command: str) -> int:
    """Submit a task and return its id."""
    with product.api as api:
        answer = api.post("tasks/", json=document(command))
    assert answer.status_code == 201, answer.text
    return int(answer.json()["id"])


def state_of(product: Product, task: int) -> str:
    """Return the state of a task."""
    with product.api as api:
        found: dict[str, Any] = api.get(f"tasks/{task}/").json()
    return str(found["state"])


def until_state(product: Product, task: int, state: str) -> None:
    """Wait until a task is in this state."""
    deadline = time.monotonic() + WITHIN_S
    while (found := state_of(product, task)) != state:
        assert time.monotonic() < deadline, (found, product.logs())
        time.sleep(0.1)


@pytest.fixture
def reader() -> Iterator[Page]:
    """Return a page of a real Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as driver, driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as browser:
        page = browser.new_page()
        page.set_default_timeout(1000 * WITHIN_S)
        yield page


def log_in(page: Page, product: Product) -> None:
    """Log in as the operator of the first start."""
    page.goto(f"{product.places.url}/login/")
    page.locator("#id_username").fill("admin")
    page.locator("#id_password").fill((product.places.data / "admin-password").read_text().strip())
    page.locator("#id_password").press("Enter")
    page.wait_for_url(f"{product.places.url}/")


def test_a_line_is_on_the_page_of_who_follows_within_a_second(running: Product, reader: Page) -> None:
    task = submitted(running, 'while :; do echo "printed at $(date +%s.%N)"; sleep 0.3; done')
    until_state(running, task, "running")
    log_in(reader, running)
    reader.goto(f"{running.places.url}/tasks/{task}/")
    expect(reader.locator("#log-text")).to_contain_text("printed at", timeout=1000 * WITHIN_S)
    reader.evaluate(LOOK)
    deadline = time.monotonic() + WITHIN_S
    while len(ages := reader.evaluate("window.ages")) < LINES:
        assert time.monotonic() < deadline, ages
        time.sleep(0.2)
    with running.api as api:
        assert api.post(f"tasks/{task}/stop/").status_code == 200
    # A second is what is promised. Not of the oldest: a machine that does much else may stop anything for that long.
    assert statistics.median(ages) < 1.0, ages


def peak_mib(pid: int) -> int:
    """Return the most memory that a process took since `forget_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


def forget_peak(pid: int) -> int:
    """Count a process's memory from now on; return what it takes, in MiB."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return peak_mib(pid)


def test_a_line_of_200_mb_and_odd_bytes_behind_it_arrive_whole_and_fill_nobody_s_memory(
    running: Product,
) -> None:
    before = {name: forget_peak(running.pid(name)) for name in programs(running)}
    odd = "".join(f"\\{byte:03o}" for byte in END)
    task = submitted(running, f"head -c {LINE} /dev/zero | tr '\\0' x; printf '{odd}'; exit 4")
    until_state(running, task, "failed")
    wanted = hashlib.sha256(b"x" * LINE + END)
    deadline = time.monotonic() + WITHIN_S
    while (found := downloaded(running, task)) != (LINE + len(END), wanted.hexdigest()):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    grown = {name: peak_mib(running.pid(name)) - size for name, size in before.items()}
    assert max(grown.values()) < 100, grown


def programs(product: Product) -> list[str]:
    """Return the names of the programs of a product."""
    return [status.name for status in group.statuses(product.places)]


def downloaded(product: Product, task: int) -> tuple[int, str]:
    """Return how long the whole log is and its SHA-256."""
    size, digest = 0, hashlib.sha256()
    with product.api as api, api.stream("GET", f"tasks/{task}/log/", params={"download": "1"}) as answer:
        for part in answer.iter_bytes():
            size += len(part)
            digest.update(part)
    return size, digest.hexdigest()
