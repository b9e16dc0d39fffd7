"""The pages in a browser: a person's way through them, live, in both themes and languages, at any width."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import log_in
from tests.browser.site import Site


def test_a_task_is_submitted_watched_and_read_live(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/3/")
    expect(ann.locator(".live")).to_have_text("Live")
    expect(ann.locator(".reason")).to_contain_text("12 are free")
    expect(ann.locator("#log-text")).to_have_text("Nothing was written yet.")

    site.deed("start")  # by another process, and the page shows it without being touched
    expect(ann.locator("#live h1 ~ .status")).to_have_text("running", timeout=20_000)
    expect(ann.locator("#attempts")).to_contain_text("gpu-2")
    log = ann.locator("#log-text")
    expect(log).to_contain_text("step 299 <b>plain</b>", timeout=20_000)
    assert log.evaluate("log => log.scrollTop + log.clientHeight >= log.scrollHeight - 2")

    site.deed("log")
    expect(log).to_contain_text("last line 中文", timeout=20_000)
    text = log.text_content() or ""
    assert text.count("step 299") == 1
    assert "10 %" not in text
    assert "\x1b" not in text

    site.deed("end")
    expect(ann.locator("#live h1 ~ .status")).to_have_text("succeeded", timeout=20_000)
    expect(ann.get_by_role("button", name="Run again")).to_be_visible()
    expect(ann.get_by_role("button", name="Stop")).to_have_count(0)


def test_the_list_is_narrowed_without_a_reload_and_the_address_follows(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/")
    ann.evaluate("window.sameDocument = true")
    ann.get_by_label("State").select_option("failed")
    expect(ann.locator("#list tbody tr")).to_have_count(1)
    expect(ann).to_have_url(re.compile("state=failed"))
    ann.get_by_label("Name or number").fill("no such")
    expect(ann.locator("#list")).to_contain_text("No task is like that")
    assert ann.evaluate("window.sameDocument")
    ann.go_back()
    expect(ann.locator("#list tbody tr")).to_have_count(1)


def test_stopping_asks_first(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/7/")  # it is held
    ann.once("dialog", lambda dialog: dialog.dismiss())
    ann.get_by_role("button", name="Stop").click()
    expect(ann.locator("#live h1 ~ .status")).to_have_text("held")
    ann.once("dialog", lambda dialog: dialog.accept())
    ann.get_by_role("button", name="Stop").click()
    expect(ann.locator("#live h1 ~ .status")).to_have_text("stopped")


def test_the_theme_is_remembered(ann: Page, site: Site) -> None:
    page = ann.locator("html")
    expect(page).to_have_attribute("data-bs-theme", "light")
    ann.get_by_role("button", name="Light or dark").click()
    expect(page).to_have_attribute("data-bs-theme", "dark")
    ann.goto(f"{site.url}/tasks/")
    expect(page).to_have_attribute("data-bs-theme", "dark")


def test_the_language_is_switched_and_stays(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/tasks/?state=failed")
    ann.get_by_role("button", name="Language").click()
    ann.get_by_role("button", name="简体中文").click()
    expect(ann.get_by_role("heading", name="任务", exact=True)).to_be_visible()
    expect(ann).to_have_url(re.compile("state=failed"))
    expect(ann.locator("html")).to_have_attribute("lang", "zh-hans")
    ann.goto(f"{site.url}/")
    expect(ann.get_by_role("heading", name="空闲卡")).to_be_visible()


def test_the_menu_of_a_phone_opens_and_leads_to_the_list(ann: Page, site: Site) -> None:
    ann.set_viewport_size({"width": 360, "height": 700})
    ann.get_by_role("button", name="Navigation").click()
    ann.get_by_role("link", name="Tasks", exact=True).click()
    expect(ann).to_have_url(f"{site.url}/tasks/")


def test_without_sockets_an_open_task_is_polled(page: Page, site: Site) -> None:
    page.add_init_script(
        "window.WebSocket = class extends EventTarget { constructor() { super(); "
        "setTimeout(() => this.dispatchEvent(new Event('close'))); } close() {} };"
    )
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/1/")
    expect(page.locator(".live")).to_have_text("Reconnecting")
    with page.expect_response(lambda got: got.url.endswith("/tasks/1/"), timeout=20_000):
        pass


def test_a_page_without_scripts_still_lists_filters_and_submits(browser: Browser, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/")
    page.locator("#id_state").select_option("failed")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.goto(f"{site.url}/tasks/new/")
    page.locator("#id_host_gpu_num").fill("1")
    page.locator("#id_start_cmd").fill("true")
    page.locator("#id_task_flag").fill("without scripts")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="without scripts")).to_be_visible()
    context.close()
