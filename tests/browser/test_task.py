"""The page of one task in a browser: why it waits, its log of any size and any bytes, its cards, its past."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import log_in
from tests.browser.site import Site
from tests.browser.task_deeds import BIG_LINES, NEEDLE, ODD

Tasks = dict[str, int]


@pytest.fixture(scope="module")
def tasks(site: Site) -> Tasks:
    """Return the ids of the tasks that these tests look at, by name."""
    return dict(json.loads(site.deed("rich")))


@pytest.fixture
def story(ann: Page, site: Site, tasks: Tasks) -> Page:
    """Return the page of the task that runs for the second time and printed odd things."""
    ann.goto(f"{site.url}/tasks/{tasks['story']}/")
    expect(ann.locator("#log-text")).to_contain_text("epoch 1 started")
    return ann


def log_of(page: Page) -> Locator:
    return page.locator("#log-text")


def lines(page: Page) -> list[str]:
    """Return the lines that are on the page."""
    return (log_of(page).text_content() or "").split("\n")


def numbers(page: Page) -> list[int]:
    """Return the numbers of the lines of the big log that are on the page."""
    return [int(line.split()[1]) for line in lines(page) if re.match(r"step +\d+ loss", line)]


def test_a_task_that_waits_says_why_what_to_do_and_what_each_host_lacks(
    ann: Page, site: Site, tasks: Tasks
) -> None:
    ann.goto(f"{site.url}/tasks/{tasks['waits']}/")
    why = ann.locator("#why")
    expect(why.locator(".reason")).to_contain_text("the largest host has 6")
    expect(why.get_by_role("row", name="take no starts: cordoned")).to_contain_text("ask operators")
    expect(why.get_by_role("row", name="do not answer")).to_contain_text("1 host")
    expect(ann.locator(".stage-now")).to_contain_text("Queued")
    ann.goto(f"{site.url}/tasks/{tasks['over']}/")
    expect(why).to_contain_text("8 of 4 in use by high tasks, 0 left · over by 4")


def test_an_attempt_says_who_evicted_it_and_a_copy_in_what_it_differs(story: Page) -> None:
    first = story.locator("#attempt-1")
    expect(first.locator(".evicted-for")).to_contain_text("its cards were the cheapest to give up")
    expect(first.locator(".lost")).to_contain_text("since its last checkpoint are lost")
    story.get_by_text("Config", exact=True).click()
    row = story.locator("#differences").get_by_role("row", name="env.SEED")
    expect(row.locator("del")).to_have_text("1")
    expect(row.locator("ins")).to_have_text("2")


def test_how_long_it_runs_goes_on_without_asking_the_server(page: Page, site: Site, tasks: Tasks) -> None:
    log_in(page, site, "ann")
    for address in (f"/tasks/{tasks['story']}/", "/tasks/", "/"):
        page.goto(f"{site.url}{address}")
        page.route("**/*", lambda route: route.abort())
        lasts = page.locator("[data-lasts]").first
        shown, said = lasts.text_content() or "", lasts.get_attribute("data-lasts")
        assert re.fullmatch(r"\d+:\d\d:\d\d", shown)
        expect(lasts).not_to_have_text(shown)
        expect(lasts).to_have_attribute("data-lasts", said or "")
        page.unroute("**/*")


def test_a_failure_leads_to_the_last_lines(ann: Page, site: Site, tasks: Tasks) -> None:
    ann.goto(f"{site.url}/tasks/{tasks['failed']}/")
    expect(ann.locator("#failure")).to_contain_text("the memory of the host ran out")
    ann.locator("#failure").get_by_role("link").click()
    expect(ann).to_have_url(re.compile("#log$"))


def test_each_card_has_a_chart_and_says_in_words_what_it_shows(story: Page) -> None:
    figures = story.locator("#charts figure")
    expect(figures).to_have_count(4)
    expect(figures.first.locator("figcaption")).to_contain_text(
        re.compile(r"Card 0: use \d+%, memory 12 of 24 GiB")
    )
    expect(figures.nth(3).locator("figcaption")).to_contain_text("(Xid): 79")
    inked = (
        "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(x => x)"
    )
    assert figures.first.locator("canvas").evaluate(inked)
    story.get_by_label("Rank", exact=True).select_option("1")
    expect(story.locator("#charts-said")).to_contain_text("No figures")
    expect(figures).to_have_count(0)


def test_any_bytes_are_shown_as_text_in_colours_without_markup(story: Page) -> None:
    log = log_of(story)
    assert lines(story)[:9] == [
        "epoch 1 started",
        "INFO loading data",
        "WARNING few workers",
        "ERROR card 3: out of memory",
        "Traceback (most recent call last):",
        '  File "train.py", line 7',
        "ValueError: bad",
        "INFO <script>alert(1)</script> <b>plain</b>",
        "100 % done",
    ]
    assert lines(story)[9:14] == [
        "nul ␀ bell ␇ here",
        "中文，按 GBK 写的",
        "�� broken",
        "turned \u202eright to left",
        "训练完成 100%",
    ]
    expect(log.locator(".ansi-2.ansi-bold")).to_have_text("epoch 1")
    expect(log.locator("script, b")).to_have_count(0)


def test_lines_are_filtered_by_level_and_a_traceback_stays_whole(story: Page) -> None:
    shown = log_of(story).locator(".log-line:visible")
    story.get_by_label("Level").select_option("error")
    expect(shown).to_have_count(4)
    expect(shown.nth(2)).to_contain_text("train.py")
    story.get_by_label("Level").select_option("warning")
    expect(shown).to_have_count(5)
    story.get_by_label("Level").select_option("")
    assert shown.count() > 10


def test_a_log_is_downloaded_byte_for_byte(story: Page, tmp_path: Path) -> None:
    with story.expect_download() as download:
        story.get_by_role("link", name="Download").click()
    download.value.save_as(tmp_path / "log")
    assert (tmp_path / "log").read_bytes().startswith(ODD)


def test_a_big_log_is_paged_up_and_down_without_a_gap_and_without_growing_the_page(story: Page) -> None:
    story.get_by_label("Rank", exact=True).select_option("1")
    log = log_of(story)
    expect(log).to_contain_text(f"step {BIG_LINES - 1:>9} ")
    story.get_by_role("button", name="Earlier").click()
    seen = numbers(story)
    for _ in range(100):
        if seen[-1] < BIG_LINES - 1:
            break
        log.evaluate("log => { log.scrollTop = 0; }")
        story.wait_for_timeout(150)
        seen = numbers(story)
    assert seen == list(range(seen[0], seen[-1] + 1))
    assert seen[-1] < BIG_LINES - 1, "the far end made room"
    for _ in range(100):
        log.evaluate("log => { log.scrollTop = log.scrollHeight; }")
        story.wait_for_timeout(80)
        assert log.evaluate("log => log.querySelectorAll('.log-line').length") < 20_000
        seen = numbers(story)
        assert seen == list(range(seen[0], seen[-1] + 1))
        if seen[-1] == BIG_LINES - 1:
            break
    assert seen[-1] == BIG_LINES - 1


def test_the_whole_log_is_searched_on_the_server_and_a_line_is_linked(story: Page) -> None:
    story.get_by_label("Rank", exact=True).select_option("1")
    expect(log_of(story)).to_contain_text(f"step {BIG_LINES - 1:>9} ")
    story.get_by_role("searchbox", name="Search the log").fill("NEEDLE")
    count = story.locator("#log-count")
    expect(count).to_have_text("not among the lines that are loaded")
    story.get_by_role("button", name="Search whole log").click()
    expect(count).to_have_text("The whole log was searched.")
    hits = story.locator("#log-hits a")
    expect(hits).to_have_text(["the needle in the haystack"])
    hits.first.click()
    expect(count).to_have_text("in 1 lines")  # those around it are loaded now
    here = story.locator(".log-here")
    expect(here).to_have_text("the needle in the haystack\n")
    expect(here).to_be_in_viewport()
    story.get_by_role("button", name="Link to line").click()
    expect(story).to_have_url(re.compile(r"attempt=2&rank=1&at=\d+#log"))
    address = story.url
    story.goto("about:blank")
    story.goto(address)
    expect(here).to_have_text("the needle in the haystack\n")
    expect(here).to_be_in_viewport()
    seen = numbers(story)
    assert NEEDLE - 1 in seen
    assert NEEDLE + 1 in seen


def test_what_was_found_in_one_log_is_not_offered_in_another(story: Page) -> None:
    story.get_by_label("Rank", exact=True).select_option("1")
    story.get_by_role("searchbox", name="Search the log").fill("NEEDLE")
    story.get_by_role("button", name="Search whole log").click()
    expect(story.locator("#log-hits a")).to_have_count(1)
    story.get_by_label("Rank", exact=True).select_option("0")
    expect(log_of(story)).to_contain_text("epoch 1 started")
    expect(story.locator("#log-hits a")).to_have_count(0)


def test_search_link_and_log_of_another_attempt_by_keyboard_alone(story: Page) -> None:
    story.get_by_label("Level").focus()
    keys = story.keyboard
    keys.press("Tab")  # follow
    keys.press("Tab")
    keys.type("info")
    expect(story.locator("#log-count")).to_have_text("in 2 lines")
    keys.press("Enter")
    expect(story.locator("#log-count")).to_have_text("1 of 2")
    keys.press("Enter")
    expect(story.locator(".log-here")).to_contain_text("<script>")
    keys.press("Shift+Enter")
    expect(story.locator(".log-here")).to_contain_text("loading data")
    story.get_by_role("button", name="Link to line").focus()
    keys.press("Enter")
    expect(story).to_have_url(re.compile(r"at=\d+#log"))
    story.get_by_role("link", name="Log of attempt 1, rank 0").focus()
    keys.press("Enter")
    expect(story.get_by_label("Attempt", exact=True)).to_have_value("1")
    expect(log_of(story)).to_have_text("Nothing was written yet.")
    expect(log_of(story)).to_be_focused()


def test_whoever_scrolls_up_is_not_moved_while_more_is_printed(story: Page, site: Site) -> None:
    log = log_of(story)
    story.set_viewport_size({"width": 800, "height": 250})  # some ten lines of it
    number = int(site.deed("more"))
    expect(log).to_contain_text(f"count {number}")
    assert log.evaluate("log => log.scrollTop + log.clientHeight >= log.scrollHeight - 2")
    log.hover()
    story.mouse.wheel(0, -400)
    expect(story.get_by_label("Follow")).not_to_be_checked()
    before = log.evaluate("log => log.scrollTop")
    number = int(site.deed("more"))
    expect(story.get_by_role("button", name="Newest")).to_be_visible()
    story.wait_for_timeout(800)
    assert log.evaluate("log => log.scrollTop") == before
    story.get_by_role("button", name="Newest").click()
    expect(log).to_contain_text(f"count {number}")
    expect(story.get_by_label("Follow")).to_be_checked()


def test_a_flood_and_endless_lines_neither_stop_the_page_nor_fill_it(story: Page, site: Site) -> None:
    log = log_of(story)
    site.deed("flood")
    expect(log).to_contain_text("after the flood", timeout=60_000)
    expect(story.locator("#log-said")).to_contain_text("were passed over")
    found = [int(line.split()[1]) for line in lines(story) if line.startswith("flood ")]
    assert found == list(range(found[0], 500_000))
    site.deed("long_line")
    expect(log).to_contain_text("last of all", timeout=60_000)
    story.get_by_role("button", name="Earlier").click()
    story.wait_for_timeout(1000)
    assert log.evaluate("log => log.textContent.length") < 8_000_000
    assert story.evaluate("performance.memory.usedJSHeapSize") < 200_000_000


def test_a_mistake_in_a_script_is_not_told_as_a_platform_that_is_away(
    page: Page, site: Site, tasks: Tasks
) -> None:
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/{tasks['story']}/")
    expect(log_of(page).locator(".log-line").first).to_be_visible()
    page.evaluate("() => { LogText.lines = () => { throw new TypeError('a mistake of ours') } }")
    with page.expect_event("pageerror") as caught:
        site.deed("more")
    assert "a mistake of ours" in str(caught.value)
    expect(log_of(page)).not_to_have_class(re.compile("log-away"))


def test_without_scripts_state_reason_and_log_are_there(browser: Browser, site: Site, tasks: Tasks) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/{tasks['waits']}/")
    expect(page.locator("#why .reason")).to_contain_text("the largest host has 6")
    expect(page.locator("h1 ~ .status")).to_have_text("queued")
    page.goto(f"{site.url}/tasks/{tasks['story']}/")
    page.get_by_role("link", name="Log of attempt 2, rank 1").click()
    expect(page.locator("pre")).to_contain_text(f"step {BIG_LINES - 1:>9} ")
    page.get_by_role("link", name="Earlier").click()
    expect(page.locator("pre")).not_to_contain_text(f"step {BIG_LINES - 1:>9} ")
    expect(page.get_by_role("link", name="Later")).to_be_visible()
    context.close()


def test_the_page_speaks_chinese_in_its_scripts_too(browser: Browser, site: Site, tasks: Tasks) -> None:
    context = browser.new_context(locale="zh-CN")
    page = context.new_page()
    page.goto(f"{site.url}/login/")
    page.locator("#id_username").fill("ann")
    page.locator("#id_password").fill("ann")
    page.locator("#id_password").press("Enter")
    page.wait_for_url(f"{site.url}/")
    page.goto(f"{site.url}/tasks/{tasks['story']}/")
    expect(page.locator("#charts figcaption").first).to_contain_text("使用率")
    page.locator("#log-words").fill("nothing says this")
    expect(page.locator("#log-count")).to_have_text("已加载的行里没有")
    page.goto(f"{site.url}/tasks/{tasks['waits']}/")
    expect(page.locator("#why")).to_contain_text("联系运维")
    expect(page.locator("#log-text")).to_have_text("还没有输出。")
    context.close()


def test_buttons_work_in_what_news_brought_for_all_readers(ann: Page, site: Site, tasks: Tasks) -> None:
    ann.goto(f"{site.url}/tasks/{tasks['waits']}/")
    for verb, after in (("Hold", "held"), ("Release", "queued")):
        form = ann.locator("#live form").filter(has_text=verb)
        expect(form.locator("[name=csrfmiddlewaretoken]")).to_have_value("")  # nobody's, as all get it
        form.get_by_role("button").click()
        expect(ann.locator("#live h1 ~ .status")).to_have_text(after)
