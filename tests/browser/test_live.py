"""A page stays right whatever becomes of its socket: it is told, resumes, polls, and says how old it is."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in
from tests.browser.proxy import Proxy
from tests.browser.site import Site

AS_OF = re.compile(r"As of\s+\d\d:\d\d:\d\d")


@pytest.fixture(scope="module")
def story(site: Site) -> int:
    """Return the id of a task that runs and prints."""
    return int(json.loads(site.deed("rich"))["story"])


@pytest.fixture
def proxy(site: Site) -> Iterator[Proxy]:
    """Return a proxy before the site."""
    found = Proxy(site.url)
    yield found
    found.close()


def visit(page: Page, proxy: Proxy, site: Site, task: int) -> None:
    """Log in and look at the task through the proxy."""
    page.goto(f"{proxy.url}/login/")
    page.get_by_label("User name").fill("ann")
    page.get_by_label("Password").fill("ann")
    page.get_by_label("Password").press("Enter")
    page.wait_for_url(f"{proxy.url}/")
    page.goto(f"{proxy.url}/tasks/{task}/")


def counted(page: Page) -> list[int]:
    """Return the numbered lines of the log, in the order in which they are on the page."""
    text = page.locator("#log-text").text_content() or ""
    return [int(number) for number in re.findall(r"^count (\d+)$", text, re.MULTILINE)]


def expect_lines(page: Page, number: int, within_ms: int = 20_000) -> None:
    """Wait for the line of this number, and see that every one before it is there once."""
    expect(page.locator("#log-text")).to_contain_text(f"count {number}", timeout=within_ms)
    assert counted(page) == list(range(number + 1))


def last_line(site: Site) -> int:
    """Let three more lines be printed and return the number of the last."""
    return int(site.deed("more"))


def test_a_socket_that_is_cut_comes_back_without_a_gap_and_without_a_line_twice(
    page: Page, proxy: Proxy, site: Site, story: int
) -> None:
    visit(page, proxy, site, story)
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    expect_lines(page, last_line(site), within_ms=20_000)
    for _ in range(3):
        proxy.refuses_sockets = True
        proxy.cut_sockets()
        expect(page.locator(".live")).to_have_text(re.compile("Reconnecting"))
        number = last_line(site)  # printed while nobody hears of it
        proxy.refuses_sockets = False
        expect(page.locator(".live")).to_have_text(re.compile("Live"), timeout=60_000)
        expect_lines(page, number, within_ms=20_000)
    expect_lines(page, last_line(site), within_ms=20_000)


def test_while_nothing_answers_the_page_says_as_of_when_it_is_right_and_catches_up(
    page: Page, proxy: Proxy, site: Site, story: int
) -> None:
    visit(page, proxy, site, story)
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    proxy.go_down()
    badge = page.locator(".live")
    expect(badge).to_have_text(AS_OF, timeout=60_000)
    shown = badge.text_content()
    number = last_line(site)
    page.wait_for_timeout(6000)
    assert badge.text_content() == shown, "its time goes on only with what it was told"
    expect(page.locator("#log-said")).to_contain_text("cannot be read now")
    proxy.is_down = False
    expect(badge).to_have_text(re.compile("Live"), timeout=60_000)
    expect_lines(page, number, within_ms=20_000)
    expect(page.locator("#log-said")).to_be_hidden()


def test_where_sockets_are_refused_the_page_polls_and_says_how_old_it_is(
    page: Page, proxy: Proxy, site: Site, story: int
) -> None:
    proxy.refuses_sockets = True
    visit(page, proxy, site, story)
    badge = page.locator(".live")
    expect(badge).to_have_text(re.compile("Reconnecting"))
    expect_lines(page, last_line(site), within_ms=30_000)
    expect(badge).to_have_text(AS_OF, timeout=60_000)
    shown = badge.text_content()
    expect_lines(page, last_line(site), within_ms=30_000)
    expect(badge).not_to_have_text(re.compile(re.escape(shown or "")), timeout=30_000)


def test_a_page_whose_socket_another_web_process_has_is_told_and_gets_what_it_asks_for(
    page: Page, proxy: Proxy, site: Site, story: int
) -> None:
    proxy.send_sockets_to(site.second())
    visit(page, proxy, site, story)
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    expect_lines(page, last_line(site))
    page.goto(proxy.url)
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    site.deed("start")
    row = page.locator("#mine tr", has_text="waits")
    expect(row.locator(".status")).to_have_text("running", timeout=30_000)  # sooner than it asks of itself


def test_a_page_in_the_background_asks_nothing_and_is_right_when_it_comes_back(
    page: Page, proxy: Proxy, site: Site, story: int
) -> None:
    visit(page, proxy, site, story)
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    page.wait_for_timeout(1000)
    hide(page, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(2):
        number = last_line(site)
    page.wait_for_timeout(1500)
    assert asked == []
    hide(page, False)
    expect_lines(page, number, within_ms=20_000)


def test_the_first_page_asks_each_minute_and_nothing_in_the_background(page: Page, site: Site) -> None:
    log_in(page, site, "ann")
    page.clock.install()
    page.goto(f"{site.url}/")
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(site.url)))
    page.clock.run_for(80_000)
    expect(page.locator(".live")).to_have_text(re.compile("Live|Reconnecting"))
    page.wait_for_timeout(500)
    assert {"/?part=cards", "/?part=mine", "/scheduler/"} <= set(asked)
    hide(page, True)
    page.wait_for_timeout(500)
    asked.clear()
    page.clock.run_for(150_000)
    page.wait_for_timeout(500)
    assert asked == []


def hide(page: Page, hidden: bool) -> None:
    """Put the page into the background, or bring it back."""
    page.evaluate(
        "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def test_a_page_that_looks_at_nothing_promises_no_news(page: Page, site: Site) -> None:
    log_in(page, site, "ann")
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    page.goto(f"{site.url}/tasks/new/")
    with page.expect_response("**/tasks/new/preview/"):
        page.locator("#id_task_flag").fill("no news")
    expect(page.locator("#verdict .verdict-title")).to_be_visible()
    expect(page.locator(".live")).to_be_hidden()


def test_one_page_has_one_socket(page: Page, site: Site, story: int) -> None:
    log_in(page, site, "ann")
    page.goto("about:blank")  # the page after the login has a socket of its own, which may open late
    opened: list[str] = []
    page.on("websocket", lambda socket: opened.append(socket.url))
    page.goto(f"{site.url}/tasks/{story}/")
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    page.wait_for_timeout(1000)
    assert len(opened) == 1
    assert f"task.{story}" in opened[0]
    assert "log." in opened[0]


def test_a_change_of_state_shows_without_touching_what_is_being_read(
    page: Page, site: Site, story: int
) -> None:
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/{story}/")
    expect(page.locator(".live")).to_have_text(re.compile("Live"))
    page.get_by_role("searchbox", name="Search the log").fill("epoch")
    site.deed("leave")
    expect(page.locator("#live h1 ~ .status")).to_have_text("stopping", timeout=20_000)
    expect(page.locator(".stage-now")).to_contain_text("stopping")
    expect(page.get_by_role("searchbox", name="Search the log")).to_be_focused()
    expect(page.get_by_role("searchbox", name="Search the log")).to_have_value("epoch")
    expect(page.locator("#log-count")).to_have_text("in 1 lines")
