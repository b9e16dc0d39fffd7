"""The admin in a browser: what needs a reason, what is refused, tables with their difference; the CSP allows it all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import log_in
from tests.browser.site import Site


@pytest.fixture
def root(page: Page, site: Site, complaints: list[str]) -> Iterator[Page]:
    """Return a page where an operator is logged in; at the end nothing may have complained."""
    log_in(page, site, "root")
    yield page
    assert complaints == []


def search(page: Page, site: Site, kind: str, words: str) -> None:
    page.goto(f"{site.url}/admin/{kind}/?q={words}")


def test_a_quota_is_lowered_with_a_reason_that_its_business_reads(root: Page, site: Site) -> None:
    search(root, site, "quotas/quota", "ads")
    root.locator("#result_list tbody th a").last.click()
    root.get_by_label("Cards:", exact=True).fill("3")
    root.get_by_role("button", name="Save", exact=True).click()
    expect(root.locator(".field-reason .errorlist")).to_contain_text("Say why")
    root.get_by_label("Reason:").fill("the sale is over")
    root.get_by_role("button", name="Save", exact=True).click()
    root.locator("#result_list tbody th a").last.click()
    root.get_by_role("link", name="History").click()
    expect(root.locator("#change-history tbody tr").first).to_contain_text("the sale is over")
    expect(root.locator("#change-history tbody tr").first).to_contain_text("16 → 3")
    root.goto(f"{site.url}/businesses/")
    root.get_by_role("link", name="ads", exact=True).click()
    expect(root.locator("#changes li").first).to_contain_text("the sale is over")


def test_a_table_of_quotas_is_looked_at_before_it_is_read_in(root: Page, site: Site, tmp_path: Path) -> None:
    table = tmp_path / "quotas.csv"
    table.write_text("business,gpu_type,region,cards\nads,M40,,11\n")
    root.goto(f"{site.url}/admin/quotas/quota/")
    root.get_by_role("link", name="Import").click()
    root.locator("#id_import_file").set_input_files(table)
    root.get_by_label("Reason:").fill("the plan of spring")
    root.get_by_role("button", name="Submit").click()
    expect(root.locator(".import-preview del")).to_have_text("4")
    expect(root.locator(".import-preview ins")).to_have_text("11")
    root.get_by_role("button", name="Confirm import").click()
    expect(root.locator(".messagelist .success")).to_contain_text("1 updated")
    with root.expect_download() as taken:
        root.get_by_role("link", name="Export").click()
    assert "ads,M40,,11,," in taken.value.path().read_text()


def test_what_tasks_need_cannot_be_deleted_and_the_page_leads_to_them(root: Page, site: Site) -> None:
    search(root, site, "quotas/business", "ads")
    root.locator("#result_list tbody input").first.check()
    root.locator("select[name=action]").select_option("delete_selected")
    root.get_by_role("button", name="Go", exact=True).click()
    expect(root.locator("#content")).to_contain_text("protected related objects")
    root.locator("#content ul a").filter(has_text="waits").first.click()
    expect(root.locator("#content")).to_contain_text("waits")


def test_a_key_of_the_policy_is_changed_with_a_reason(root: Page, site: Site) -> None:
    root.goto(f"{site.url}/admin/jobs/policy/")
    root.locator("#id_elastic_order").select_option("fifo")
    root.locator("#id_reason").fill("tried out")
    root.get_by_role("button", name="Save", exact=True).click()
    expect(root.locator(".messagelist .success")).to_be_visible()
    root.get_by_role("link", name="History").click()
    expect(root.locator("#change-history tbody tr").first).to_contain_text("elastic_order: – → fifo")
