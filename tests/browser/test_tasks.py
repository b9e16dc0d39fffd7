"""The list of tasks in a browser: views, filters, many at once, and news under which nothing jumps."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import log_in
from tests.browser.site import Site


@pytest.fixture(scope="module", autouse=True)
def _many(site: Site) -> None:
    site.deed("many")


def rows(page: Page) -> list[str]:
    """Return the names in the list."""
    return page.locator("#list tbody .task-name a").all_inner_texts()


def question(page: Page) -> Page:
    """Open the page that asks before something is done to many."""
    page.get_by_label("all that match").check()
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Hold")
    return page


def test_filters_order_and_page_are_in_the_address(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/")
    ann.evaluate("window.sameDocument = true")
    ann.get_by_label("Name or number").fill("SWEEP-")
    expect(ann).to_have_url(f"{site.url}/tasks/?q=SWEEP-")
    expect(ann.locator("#list tbody tr")).to_have_count(50)
    expect(ann.get_by_label("Name or number")).to_be_focused()
    ann.get_by_label("Order").select_option("oldest")
    expect(ann).to_have_url(re.compile("sort=oldest"))
    expect(ann.locator("#list tbody .task-name a").first).to_have_text("sweep-00")
    assert ann.evaluate("window.sameDocument")
    ann.get_by_role("link", name="Further").click()
    expect(ann.locator("#list tbody tr")).to_have_count(10)
    ann.get_by_role("link", name="Back").click()
    expect(ann.locator("#list tbody .task-name a").first).to_have_text("sweep-00")
    ann.get_by_text("More filters").click()
    ann.get_by_label("GPU type").select_option("M40")
    expect(ann.locator("#list")).to_contain_text("No task is like that")
    ann.go_back()
    expect(ann.locator("#list tbody tr").first).to_be_visible()


def test_a_row_says_why_its_task_waits_or_failed(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/?q=broken")
    expect(ann.locator("#list .why")).to_contain_text("ended with exit code 137")
    expect(ann.locator("#list .why")).to_contain_text("exit_code")
    ann.goto(f"{site.url}/tasks/?q=sweep-59")
    expect(ann.locator("#list .why")).to_contain_text("12 are free, the largest host has 6")


def test_filters_are_saved_as_a_view_and_removed(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/?state=failed&q=broken")
    ann.get_by_text("Save as a view").click()
    ann.get_by_label("Name of the view").fill("夜间 broken")
    ann.keyboard.press("Enter")
    expect(ann.get_by_role("alert")).to_contain_text("is saved")
    ann.get_by_role("link", name="All", exact=True).click()
    ann.get_by_role("link", name="夜间 broken").click()
    expect(ann.get_by_role("link", name="夜间 broken")).to_have_attribute("aria-current", "page")
    assert rows(ann) == ["broken-全量"]
    ann.get_by_role("button", name="Remove this view").click()
    expect(ann.get_by_role("link", name="夜间 broken")).to_have_count(0)


def test_ticked_tasks_are_held_and_released_after_a_question(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/?q=sweep-1")
    ann.get_by_label("Choose all on this page").check()
    expect(ann.locator("#bulk")).to_contain_text("10 chosen")
    ann.locator("#list tbody input").first.uncheck()
    expect(ann.locator("#bulk")).to_contain_text("9 chosen")
    ann.get_by_role("button", name="Hold").click()
    expect(ann.locator(".bulk-question")).to_contain_text("9 tasks are meant")
    ann.get_by_role("button", name="Hold: 9 tasks").click()
    expect(ann.get_by_role("alert")).to_contain_text("Hold: 9 tasks (queued 9).")
    expect(ann).to_have_url(f"{site.url}/tasks/?q=sweep-1")
    ann.get_by_label("all that match").check()
    ann.get_by_role("button", name="Release").click()
    expect(ann.locator(".bulk-question")).to_contain_text("Left as they are")
    ann.get_by_role("button", name="Release: 9 tasks").click()
    expect(ann.get_by_role("alert").first).to_contain_text("Release: 9 tasks")


def test_the_list_is_used_with_the_keyboard_alone(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/?q=sweep-2")
    ann.get_by_label("Choose all on this page").focus()
    ann.keyboard.press("Tab")
    ann.keyboard.press("Space")
    expect(ann.locator("#bulk")).to_contain_text("1 chosen")
    ann.get_by_role("button", name="Stop").focus()
    ann.keyboard.press("Enter")
    expect(ann.locator(".bulk-question")).to_contain_text("1 task is meant")
    ann.get_by_role("link", name="Back to the list").focus()
    ann.keyboard.press("Enter")
    expect(ann).to_have_url(f"{site.url}/tasks/?q=sweep-2")


def test_a_file_is_downloaded_with_what_the_filter_finds(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/?q=broken")
    with ann.expect_download() as started:
        ann.get_by_role("link", name="CSV for Excel").click()
    content = started.value.path().read_bytes()
    assert content.startswith(b"\xef\xbb\xbfid,task_flag,")
    assert content.count(b"\r\n") == 2
    assert "broken-全量".encode() in content


def test_news_change_rows_in_place_and_nothing_jumps_for_who_has_ticked_or_scrolled(
    ann: Page, site: Site
) -> None:
    ann.goto(f"{site.url}/tasks/?state=waiting")
    expect(ann.locator(".live")).to_have_text("Live")
    before = rows(ann)
    box = ann.get_by_label("Choose task", exact=False).nth(5)
    box.check()
    ann.evaluate("window.scrollTo(0, 600)")
    at = ann.evaluate(
        "[window.scrollY, document.querySelectorAll('#list tbody tr')[9].getBoundingClientRect().top]"
    )
    site.deed("come")
    site.deed("go")
    news = ann.locator("#list-news")
    expect(news).to_contain_text("3 new", timeout=20_000)
    expect(news).to_contain_text("1 no longer like that", timeout=20_000)
    # What else of the page is asked for anew, such as when the scheduler last looked, takes no news away.
    assert not ann.evaluate(
        "htmx.ajax('GET', '/scheduler/', { target: '#pulse', swap: 'morph:innerHTML' })"
        ".then(() => document.getElementById('list-news').hidden)"
    )
    assert rows(ann) == before
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    assert at == ann.evaluate(
        "[window.scrollY, document.querySelectorAll('#list tbody tr')[9].getBoundingClientRect().top]"
    )
    news.get_by_role("button", name="Show").click()
    expect(ann.locator("#list tbody .task-name a").first).to_have_text("late-2")
    expect(news).to_be_hidden()
    expect(ann.locator("#list tbody input:checked")).to_have_count(1)
    assert "sweep-59" not in rows(ann)


def test_news_show_at_once_to_who_only_looks(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/")
    expect(ann.locator(".live")).to_have_text("Live")
    ann.evaluate("window.sameDocument = true")
    number = ann.locator("#list tbody .task-name", has_text="late-").count()
    site.deed("come")
    expect(ann.locator("#list tbody .task-name", has_text="late-")).to_have_count(number + 3, timeout=20_000)
    expect(ann.locator("#list-news")).to_be_hidden()
    assert ann.evaluate("window.sameDocument")


def test_without_scripts_forms_do_all_of_it(browser: Browser, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/")
    page.locator("#id_q").fill("sweep-3")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#list tbody tr")).to_have_count(10)
    page.locator("#list tbody input").first.check()
    page.get_by_role("button", name="Hold").click()
    page.get_by_role("button", name="Hold: 1 task").click()
    expect(page.get_by_role("alert")).to_contain_text("Hold: 1 task (queued 1).")
    page.get_by_text("Save as a view").click()
    page.get_by_label("Name of the view").fill("three")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name="three")).to_be_visible()
    page.get_by_role("button", name="Remove this view").click()
    context.close()
