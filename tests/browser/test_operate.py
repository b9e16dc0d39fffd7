"""What operators do, in a browser: look at hosts and drain one, try a change and make it, read the calendar."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in
from tests.browser.site import Site

CARDS = 20_000


@pytest.fixture(scope="module")
def ids(site: Site) -> dict[str, int]:
    site.deed("looked")
    return dict(json.loads(site.deed("operate")))


@pytest.fixture
def root(page: Page, site: Site, ids: dict[str, int], complaints: list[str]) -> Iterator[Page]:
    """Return a page where an operator is logged in; at the end nothing may have complained."""
    log_in(page, site, "root")
    yield page
    assert complaints == []


def test_a_host_is_found_on_the_map_by_the_keyboard_and_drained_after_a_look_at_whom_it_hits(
    root: Page, site: Site
) -> None:
    root.get_by_role("button", name="Cluster").click()
    root.get_by_role("link", name="Hosts", exact=True).click()
    root.get_by_label("GPU type").select_option("L40")
    root.get_by_role("button", name="Show", exact=True).click()
    expect(root).to_have_url(re.compile("gpu_type=L40"))
    expect(root.locator("#map")).to_have_attribute("data-cards", "48")
    canvas = root.locator(".map-canvas")
    canvas.focus()
    canvas.press("ArrowRight")
    canvas.press("ArrowRight")
    expect(root.locator("#map-said")).to_contain_text("map-1 · ready · high 2, elastic 5, free 1")
    canvas.press("Enter")
    drawer = root.locator("#drawer")
    expect(drawer.get_by_role("heading", name="map-1")).to_be_visible()
    expect(drawer.locator(".host-charts figure")).to_have_count(3)
    expect(drawer.get_by_role("link", name=re.compile("leaves #")).first).to_be_visible()
    root.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    canvas.press("Enter")
    drawer.get_by_role("link", name="Drain…").click()

    hit = root.locator("#hit")
    expect(hit.locator("#hit-leavers")).to_contain_text("it does not come back")
    expect(hit.locator("#hit-leavers")).to_contain_text("it runs again from")
    expect(hit.locator("#hit-stayers")).to_contain_text("at its time limit, or before")
    root.get_by_label("Reason").fill("new cables")
    root.get_by_role("button", name="Drain: map-1").click()
    expect(root.locator("#host")).to_contain_text("draining since")
    expect(root.locator("#host")).to_contain_text("by root: new cables")
    expect(root.locator("#host-events")).to_contain_text("Draining: takes no starts")


def test_a_card_that_somebody_uses_by_hand_shows_so_while_the_page_is_open(root: Page, site: Site) -> None:
    root.goto(f"{site.url}/hosts/?q=map-5")
    expect(root.locator(".live")).to_have_text("Live")
    expect(root.locator("#map")).to_have_attribute("data-cards", "8")
    row = root.locator("#hosts-table tbody tr")
    outside = row.locator("td").nth(9)
    expect(outside).to_have_text("0")
    site.deed("use_from_outside")
    expect(outside).to_have_text("1")
    root.get_by_role("link", name="map-5").click()
    expect(root.locator("#host tbody tr").nth(3)).to_contain_text("used by pid 4711, which is no task")
    expect(root.locator("#host-events")).to_contain_text("Card 3 is used by pid 4711")
    site.deed("give_back")
    expect(root.locator("#host tbody tr").nth(3)).to_contain_text("free")


def test_a_change_is_tried_in_the_background_and_then_made(root: Page, site: Site) -> None:
    root.goto(f"{site.url}/cluster/what-if/")
    root.get_by_role("link", name="Try a change").click()
    line = root.locator("fieldset").first
    line.get_by_label("Business").select_option("ads")
    line.get_by_label("GPU type").select_option("L40")
    line.get_by_label("Cards").fill("24")
    root.get_by_label("Placement · placement").select_option("spread")
    root.get_by_role("button", name="Try it").click()
    expect(root.locator("#progress")).to_be_visible()
    expect(root.locator("#what-is-changed")).to_contain_text("quota of ads · L40")
    site.deed("replay")
    expect(root.locator("#whole")).to_contain_text("95 % wait no longer than")
    expect(root.locator("#courses figure canvas")).to_have_count(4)
    root.get_by_label("Reason").fill("for the big run")
    root.get_by_role("button", name="Make the change").click()
    expect(root.locator("#applied")).to_contain_text("by root: for the big run")
    root.goto(f"{site.url}/cluster/what-if/")
    expect(root.locator("tbody tr").first).to_contain_text("the change is made")


def test_a_change_whose_base_is_another_by_now_is_not_made(
    root: Page, site: Site, complaints: list[str], ids: dict[str, int]
) -> None:
    site.deed("lower_quota")
    root.goto(f"{site.url}/cluster/what-if/{ids['answered']}/")
    root.get_by_label("Reason").fill("for the big run")
    root.get_by_role("button", name="Make the change").click()
    expect(root.locator("#refused")).to_contain_text("quota of ads · L40: was 16, is 9 now.")
    assert len(complaints) == 2, "that it is refused"
    complaints.clear()


def test_a_question_is_called_off(root: Page, site: Site) -> None:
    root.goto(f"{site.url}/cluster/what-if/new/")
    root.get_by_label("Placement · placement").select_option("best_fit")
    root.get_by_label("Aging (s) · aging_s").fill("99")
    root.get_by_role("button", name="Try it").click()
    root.get_by_role("button", name="Call it off").click()
    expect(root.locator("#answer")).to_contain_text("was called off")


def kill_in_the_middle(site: Site) -> None:
    """Let a process replay the question that is open, and kill it there; what it began ends with it."""
    worker = site.begin("replay_one")
    try:
        until = time.monotonic() + 60
        while not (simulating := children(worker.pid)):
            assert time.monotonic() < until, "it replays in a process of its own"
            time.sleep(0.05)
    finally:
        worker.kill()
        worker.wait()
    until = time.monotonic() + 15
    while any(Path(f"/proc/{pid}/cmdline").exists() and alive(pid) for pid in simulating):
        assert time.monotonic() < until, "the simulation outlives whoever asked for it"
        time.sleep(0.2)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in found for child in path.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_killed_in_the_middle_of_a_replay_is_told_then_tried_once_more_then_ended(
    root: Page, site: Site
) -> None:
    site.deed("replay")  # nothing else waits
    site.deed("busy_past")
    root.goto(f"{site.url}/cluster/what-if/new/")
    root.get_by_label("Aging (s) · aging_s").fill("77")
    root.get_by_role("button", name="Try it").click()

    kill_in_the_middle(site)
    expect(root.locator("#progress")).to_contain_text("is being replayed")
    site.deed("a_minute_passes")
    expect(root.locator("#silent")).to_contain_text("its worker may have been ended")

    kill_in_the_middle(site)
    expect(root.locator("#begun-anew")).to_contain_text("it is replayed anew, once")
    site.deed("a_minute_passes")
    site.deed("replay_one")
    expect(root.locator("#answer")).to_contain_text("Twice its worker was ended in the middle of it")
    expect(root.locator("#progress")).to_have_count(0)


def test_reservations_are_read_by_the_clocks_of_another_place(root: Page, site: Site) -> None:
    root.goto(f"{site.url}/cluster/reservations/")
    expect(root.locator("#conflicts")).to_contain_text("more than there is")
    before = root.locator("#windows tbody tr").nth(1).text_content()
    root.get_by_label("Time zone").fill("Asia/Shanghai")
    root.get_by_role("button", name="Show", exact=True).click()
    expect(root.locator("#windows tbody tr").nth(1)).to_contain_text("22:00")
    assert root.locator("#windows tbody tr").nth(1).text_content() != before
    root.get_by_role("link", name="The week after →").click()
    expect(root.locator(".page-header")).to_contain_text("by the clocks of Asia/Shanghai")
    expect(root.locator("#own-zone")).to_be_visible()


def test_a_number_of_the_queue_leads_to_its_tasks(root: Page, site: Site) -> None:
    root.goto(f"{site.url}/cluster/scheduler/")
    row = root.locator("#by-reason tbody tr").filter(has_text="its cards are being cleared")
    row.get_by_role("link").first.click()
    expect(root.locator("#list tbody tr")).to_have_count(1)
    expect(root.locator("#list")).to_contain_text("claims")


def test_twenty_thousand_cards_are_drawn_and_walked_by_the_keyboard(root: Page, site: Site) -> None:
    site.deed("many_hosts")
    root.goto(f"{site.url}/hosts/?region=Huge")
    expect(root.locator("#map")).to_have_attribute("data-cards", str(CARDS))
    figures = root.evaluate("({...document.getElementById('map').dataset})")
    print(f"answer {figures['answerMs']} ms, drawn {figures['drawMs']} ms")
    canvas = root.locator(".map-canvas").first
    canvas.press("End")
    expect(root.locator("#map-said")).to_contain_text(re.compile("huge-2(498|499) · ready"))
