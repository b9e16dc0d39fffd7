"""From the login to a first task and its end without a mouse: what is pressed is all that a keyboard has."""

import re

from playwright.sync_api import Dialog, Locator, Page, expect

from tests.browser.site import Site

STEPS = 80  # no page has so many stops before what one wants of it


def go_to(page: Page, wanted: Locator) -> None:
    """Press Tab until it has the focus, and see that this can be seen."""
    for _ in range(STEPS):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            assert wanted.evaluate("element => element.matches(':focus-visible')")
            return
    raise AssertionError(f"Tab does not lead to {wanted}")


def test_a_first_task_is_submitted_watched_and_stopped_by_the_keyboard_alone(
    page: Page, site: Site, complaints: list[str]
) -> None:
    keys = page.keyboard
    page.goto(f"{site.url}/login/")
    go_to(page, page.get_by_label("User name"))
    keys.type("ann")
    keys.press("Tab")
    keys.type("ann")
    keys.press("Enter")
    page.wait_for_url(f"{site.url}/")

    go_to(page, page.get_by_role("link", name="P40").first)
    keys.press("Enter")
    expect(page.locator("#verdict")).to_contain_text("Still to fill in:")
    go_to(page, page.get_by_role("textbox", name="Name", exact=True))
    keys.type("by hand")
    go_to(page, page.get_by_role("textbox", name="Start command", exact=True))
    keys.type("python train.py")
    expect(page.locator("#verdict .verdict-title")).to_have_text("Starts now")
    go_to(page, page.get_by_role("button", name="Submit"))
    keys.press("Enter")

    expect(page.get_by_role("heading", name="by hand")).to_be_visible()
    asked: list[str] = []

    def agree(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept()

    page.once("dialog", agree)
    go_to(page, page.get_by_role("button", name="Stop"))
    keys.press("Enter")
    expect(page.locator("#live h1 ~ .status")).to_have_text("stopped")
    assert re.match("Stop this task", asked[0])
    assert complaints == []
