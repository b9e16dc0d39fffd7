"""The page of the API's description, in a browser that keeps the content policy."""

from playwright.sync_api import Page, expect

from tests.browser.site import Site


def test_every_call_can_be_read_and_nothing_complains(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/api/v1/docs/")
    expect(ann.locator(".opblock").first).to_be_visible()
    assert ann.locator(".opblock").count() > 40
    ann.locator(".opblock-summary", has_text="/api/v1/tasks/bulk/").first.click()
    expect(ann.locator(".opblock.is-open")).to_contain_text("Idempotency-Key")


def test_a_call_can_be_tried_with_the_session(ann: Page, site: Site) -> None:
    ann.goto(f"{site.url}/api/v1/docs/")
    call = ann.locator(".opblock", has=ann.locator('[data-path="/api/v1/me/"]'))
    call.locator(".opblock-summary").click()
    call.get_by_role("button", name="Try it out").click()
    call.get_by_role("button", name="Execute").click()
    expect(call.locator(".live-responses-table")).to_contain_text('"user": "ann"')
