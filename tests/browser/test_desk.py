"""What operators decide at their desk, in a browser, and what the next pass makes of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in
from tests.browser.site import Site


@pytest.fixture
def root(page: Page, site: Site, complaints: list[str]) -> Iterator[Page]:
    """Return a page where an operator is logged in; at the end nothing may have complained."""
    site.deed("looked")
    log_in(page, site, "root")
    yield page
    assert complaints == []


def in_administration(page: Page, site: Site, kind: str, words: str) -> None:
    """Go to a list of the administration, and search there."""
    page.goto(f"{site.url}/admin/")
    page.locator("#content-main tbody").get_by_role("link", name=kind, exact=True).click()
    page.locator("#searchbar").fill(words)
    page.get_by_role("button", name="Search").click()


def choose(page: Page, numbers: list[int], action: str) -> None:
    """Check rows of a list by their numbers and have something done to them."""
    for number in numbers:
        page.locator(f"#result_list input[value='{number}']").check()
    page.locator("select[name=action]").select_option(label=action)
    page.get_by_role("button", name="Go", exact=True).click()


def states(page: Page, site: Site, flag: str) -> dict[str, str]:
    """Return what the list of tasks shows of a business: state by name."""
    page.goto(f"{site.url}/tasks/?business={flag}")
    rows = page.locator("#list tbody tr")
    expect(rows.first).to_be_visible()
    return {
        row.locator(".task-name a").inner_text(): row.locator(".state").inner_text().strip()
        for row in rows.all()
    }


def test_a_priority_raised_and_a_quota_given_while_tasks_wait_are_followed_by_the_next_pass(
    root: Page, site: Site
) -> None:
    ids = json.loads(site.deed("line"))
    site.deed("pass")
    assert states(root, site, "line") == {
        "holder": "running",
        **dict.fromkeys(("first", "second", "last", "parked"), "queued"),
    }
    root.get_by_role("link", name="parked").click()
    expect(root.locator("#why")).to_contain_text("has no quota of T4")

    in_administration(root, site, "Tasks", "line")
    choose(root, [ids["last"], ids["parked"]], "Set the priority to high")
    expect(root.locator(".messagelist")).to_contain_text("Changed: 2.")
    in_administration(root, site, "Quotas", "line")
    root.locator("#result_list tr", has_text="T4").locator("th a").click()
    root.get_by_label("Cards:", exact=True).fill("8")
    root.get_by_label("Reason:").fill("they share our T4 now")
    root.get_by_role("button", name="Save", exact=True).click()
    expect(root.locator(".messagelist .success")).to_be_visible()

    site.deed("holder_ends")
    site.deed("pass")
    assert states(root, site, "line") == {
        "holder": "succeeded",
        "first": "queued",
        "second": "queued",
        "last": "starting",
        "parked": "starting",
    }
    root.get_by_role("link", name="last", exact=True).click()
    said = root.get_by_role("region", name="Time line").get_by_role("listitem")
    expect(said.filter(has_text="Its priority was set to high")).to_contain_text("by root")
    root.goto(f"{site.url}/audit/?user=root")
    lines = root.locator("tbody tr")
    raised = lines.filter(has_text="set the priority of a task to high")
    expect(raised).to_have_count(2)
    expect(raised.filter(has=root.get_by_role("link", name=str(ids["last"]), exact=True))).to_have_count(1)
    expect(lines.first).to_contain_text("root")
    expect(lines.first).to_contain_text("line: 8 × T4")
    expect(lines.first).to_contain_text("they share our T4 now")


def give_quota(page: Page, site: Site, number: int, cards: int, reason: str) -> None:
    page.goto(f"{site.url}/admin/quotas/quota/{number}/change/")
    page.get_by_label("Cards:", exact=True).fill(str(cards))
    page.get_by_label("Reason:").fill(reason)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist .success")).to_be_visible()


def test_a_quota_lowered_under_what_runs_or_deleted_ends_nothing_and_lets_nothing_new_start(
    root: Page, site: Site
) -> None:
    ids = json.loads(site.deed("full"))
    number = ""
    line = root.locator("#quota tbody tr").first  # of all regions together
    for quota, reason in ((8, "half of them are lent"), (0, "all of them are")):
        give_quota(root, site, ids["quota"], quota, reason)
        number = number or site.deed("one_more")
        site.deed("pass")  # each in a process of its own, as after a restart
        root.goto(f"{site.url}/businesses/{ids['business']}/")
        expect(line).to_contain_text(f"16 of {quota}")
        expect(line).to_contain_text(f"over by {16 - quota}")
        expect(line.locator("[data-label=Left]")).to_have_text("0")
        assert states(root, site, "full") == {"new": "queued", "runs-1": "running", "runs-2": "running"}
        root.goto(f"{site.url}/tasks/{number}/")
        expect(root.locator("#why")).to_contain_text(f"over by {16 - quota}")
    root.goto(f"{site.url}/admin/quotas/quota/{ids['quota']}/delete/")
    root.get_by_label("reason").fill("they left")
    root.get_by_role("button", name="Delete").click()
    expect(root.locator(".messagelist .success")).to_be_visible()
    site.deed("pass")
    assert states(root, site, "full") == {"new": "queued", "runs-1": "running", "runs-2": "running"}
    root.goto(f"{site.url}/businesses/{ids['business']}/")
    expect(line).to_contain_text("over by 16")
    expect(line.locator("[data-label=Left]")).to_have_text("0")


def test_on_a_phone_the_queue_and_a_table_to_be_read_in_are_read_without_going_sideways(
    root: Page, site: Site, tmp_path: Path
) -> None:
    root.set_viewport_size({"width": 390, "height": 800})
    root.goto(f"{site.url}/cluster/scheduler/")
    expect(root.locator("#by-reason tbody tr").first).to_be_visible()
    assert _sideways(root, "#by-reason .table-responsive") == 0
    expect(root.locator("#by-reason td[data-label=high]").first).to_be_visible()
    table = tmp_path / "quotas.csv"
    table.write_text("business,gpu_type,region,cards\nads,M40,,11\n")
    root.goto(f"{site.url}/admin/quotas/quota/import/")
    root.locator("#id_import_file").set_input_files(table)
    root.get_by_label("Reason:").fill("the plan of spring")
    root.get_by_role("button", name="Submit").click()
    expect(root.locator(".import-preview td[data-label=cards]")).to_contain_text("11")
    assert _sideways(root, "html") == 0


def _sideways(page: Page, selector: str) -> int:
    """Return by how many pixels something is wider than what is seen of it."""
    return int(page.locator(selector).evaluate("element => element.scrollWidth - element.clientWidth"))
