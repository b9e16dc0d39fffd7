"""The submit page in a browser: the verdict while typing, types in order, form and JSON, templates, by keyboard too."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.browser.conftest import log_in
from tests.browser.proxy import Proxy
from tests.browser.site import Site

SEED = """{
# 基础配置
"business_flag": "ads",
"GPUName": 'M40,P40', # 不介意卡型
"host_gpu_num": 2 ,
"start_cmd": "python seed.py",
}"""


@pytest.fixture(autouse=True, scope="module")
def _crowded(site: Site) -> None:
    """Let others hold every M40, and P40 be enough."""
    site.deed("crowd")


@pytest.fixture
def form(ann: Page, site: Site) -> Page:
    """Return the blank form of a high task, after its first answer."""
    ann.goto(f"{site.url}/tasks/new/")
    ann.locator("#id_is_elasticity_0").check(force=True)
    expect(title(ann)).to_have_text("Starts now")
    return ann


def title(page: Page) -> Locator:
    """Return the heading of the verdict."""
    return page.locator("#verdict .verdict-title")


def field(page: Page, name: str) -> Locator:
    """Return a text field of the form."""
    return page.get_by_role("textbox", name=name, exact=True)


def text_of(page: Page) -> dict[str, Any]:
    """Return what the JSON beside the form says."""
    found: dict[str, Any] = json.loads(page.locator("#json").input_value())
    return found


def test_the_verdict_follows_what_is_typed_and_an_answer_that_came_late_changes_nothing(form: Page) -> None:
    late: list[Route] = []

    def hold_first(route: Route) -> None:
        if not late:
            late.append(route)
        else:
            route.continue_()

    form.route("**/tasks/new/preview/", hold_first)
    with form.expect_request("**/tasks/new/preview/"):
        field(form, "Cards on each host").fill("9")
    field(form, "Cards on each host").fill("2")
    expect(form.locator("#verdict")).to_contain_text("2 cards")
    assert late
    form.unroute("**/tasks/new/preview/")
    expect(title(form)).to_have_text("Starts now")
    expect(form.locator("#id_host_gpu_num_error")).to_be_hidden()
    field(form, "Cards on each host").fill("9")
    expect(title(form)).to_have_text("Never starts")
    expect(form.locator("#id_host_gpu_num_error")).to_contain_text("the largest host in any region has 8 P40")
    expect(field(form, "Cards on each host")).to_have_attribute("aria-invalid", "true")


def test_what_is_typed_while_an_answer_is_on_its_way_stays(form: Page) -> None:

    def answer_late(route: Route) -> None:
        form.wait_for_timeout(300)
        route.continue_()

    form.route("**/tasks/new/preview/", answer_late)
    field(form, "Hosts").fill("2")
    form.wait_for_timeout(450)
    field(form, "Name").press_sequentially("typed meanwhile", delay=40)
    expect.soft(title(form)).to_have_text("Starts now")
    expect(field(form, "Name")).to_have_value("typed meanwhile")
    expect(field(form, "Hosts")).to_have_value("2")
    form.unroute_all(behavior="wait")


def test_whom_it_would_evict_is_said_and_a_click_takes_what_starts_without(form: Page) -> None:
    form.get_by_role("button", name="Add M40").click()
    field(form, "Cards on each host").fill("4")
    expect(title(form)).to_have_text("Starts after evicting 1 task")
    expect(form.locator(".victims")).to_contain_text("speech")
    expect(form.locator(".victims")).to_contain_text(re.compile(r"4 cards · loses 0\.\d card-hours"))
    expect(form.locator(".victims")).to_contain_text("comes back by itself")
    other = form.get_by_role("button", name="On P40")
    other.focus()
    form.keyboard.press("Enter")
    expect(title(form)).to_have_text("Starts now")
    expect(form.locator("#verdict")).to_be_focused()
    expect(form.locator(".type-list li")).to_have_text([re.compile("P40")])
    assert text_of(form)["GPUName"] == "P40"


def test_what_waits_says_its_place_why_and_since_when_it_is_known(form: Page) -> None:
    form.get_by_role("button", name="Add M40").click()
    form.locator("#id_is_elasticity_1").check(force=True)
    expect(title(form)).to_have_text("Queues at 1 of 1")
    expect(form.locator("#verdict")).to_contain_text("Asks 1 M40 on one host; 0 are free")
    expect(form.locator("#verdict .estimate")).to_contain_text("Estimated start:")


def test_types_are_ordered_by_the_keyboard_alone(form: Page, site: Site) -> None:
    add = form.get_by_role("button", name="Add M40")
    add.focus()
    form.keyboard.press("Enter")
    expect(form.get_by_role("button", name="Remove M40")).to_be_focused()
    form.get_by_role("button", name="Add P40").focus()
    form.keyboard.press("Space")
    items = form.locator(".type-list li")
    expect(items).to_have_text([re.compile("M40"), re.compile("P40")])
    form.keyboard.press("Shift+Tab")  # from removing P40 to what moves it
    expect(form.get_by_role("button", name="Try P40 earlier")).to_be_focused()
    form.keyboard.press("Enter")
    expect(items).to_have_text([re.compile("P40"), re.compile("M40")])
    expect(form.locator(".types [role=status]")).to_have_text("P40 is number 1 of 2.")
    expect(form.get_by_role("button", name="Try P40 later")).to_be_focused()
    field(form, "Start command").fill("true")
    field(form, "Name").fill("in order")
    form.keyboard.press("Enter")
    expect(form.get_by_role("heading", name="in order")).to_be_visible()
    assert "'GPUName': 'P40,M40'" in site.deed("newest")


def test_removing_the_last_type_leaves_the_types_of_the_business(form: Page) -> None:
    form.get_by_role("button", name="Add M40").click()
    form.get_by_role("button", name="Remove M40").click()
    expect(form.locator(".type-list")).to_be_hidden()
    expect(form.locator("#default-types")).to_contain_text("Blank: P40, M40")
    expect(form.get_by_role("button", name="Add M40")).to_be_focused()


def test_the_json_follows_the_form_and_the_form_the_json(form: Page) -> None:
    field(form, "Start command").fill("python train.py")
    expect(form.locator("#json")).to_have_value(re.compile("python train.py"))
    box = form.locator("#json")
    box.fill(SEED)
    expect(field(form, "Start command")).to_have_value("python seed.py")
    expect(form.locator(".type-list li")).to_have_text([re.compile("M40"), re.compile("P40")])
    expect(box).to_have_value(SEED)  # it stays as it was typed, comments and all
    field(form, "Name").fill("named")
    expect(box).to_have_value(re.compile('"task_flag": "named"'))
    assert text_of(form)["GPUName"] == "M40,P40"


def test_a_text_that_cannot_be_read_stays_until_it_is_mended_or_written_anew(form: Page) -> None:
    box = form.locator("#json")
    box.fill('{"business_flag": "ads",\n"host_num": ]')
    expect(form.locator("#json-faults")).to_contain_text("Line 2 cannot be read")
    field(form, "Hosts").fill("2")
    expect(form.locator("#verdict")).to_contain_text("1 card")
    expect(box).to_have_value(re.compile('host_num": ]'))
    form.get_by_role("button", name="Submit").click()
    expect(form.locator("#refused")).to_contain_text("cannot be taken as it is")
    expect(box).to_have_value(re.compile('host_num": ]'))
    form.get_by_role("button", name="Write it anew from the form").click()
    expect(box).to_have_value(re.compile('"host_num": 2'))
    expect(form.locator("#json-faults")).to_be_hidden()


def test_faults_of_the_json_stand_beside_it_and_beside_their_fields(form: Page) -> None:
    form.locator("#json").fill('{"business_flag": "ads", "start_cmd": "x", "host_num": "two", "hostgpu": 2}')
    expect(form.locator("#json-faults")).to_contain_text('did you mean "host_gpu_num"?')
    expect(field(form, "Hosts")).to_have_value("two")
    expect(form.locator("#id_host_num_error")).to_contain_text("whole number")
    expect(field(form, "Other fields")).to_have_value(re.compile("hostgpu"))
    expect(title(form)).to_have_text("Would be refused")


def test_a_file_is_opened_into_the_form(form: Page, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "business_flag: ads\nstart_cmd: python from_file.py\nhost_gpu_num: 3\n"
    )
    form.locator("#file").set_input_files(tmp_path / "config.yaml")
    expect(field(form, "Start command")).to_have_value("python from_file.py")
    expect(field(form, "Cards on each host")).to_have_value("3")


def test_texts_are_copied_without_secrets_or_a_token(form: Page, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    form.locator("#optional summary").click()
    field(form, "Secret environment").fill("KEY=hush-hush")
    expect(form.locator("#json")).to_have_value(re.compile('"secret": true'))
    for name in ("taiji", "curl", "Python"):
        part = form.locator(f"#export-{name.lower()}")
        part.locator("summary").click()
        part.get_by_role("button", name="Copy").click()
        expect(part.get_by_role("button", name="Copied")).to_be_visible()
        copied = form.evaluate("navigator.clipboard.readText()")
        assert ("TAIJI_URL" if name == "taiji" else "TAIJI_TOKEN") in copied
        assert "hush-hush" not in copied
    field(form, "Hosts").fill("2")
    expect(form.locator("#as-curl")).to_contain_text('"host_num": 2')
    expect(form.locator("#as-curl")).to_be_visible()  # what was unfolded stays so
    expect(field(form, "Secret environment")).to_be_visible()


def test_texts_are_copied_where_the_browser_has_no_clipboard_of_its_own(form: Page) -> None:
    form.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    form.evaluate("document.addEventListener('copy', () => { window.copied = getSelection().toString(); })")
    form.locator("#document").get_by_role("button", name="Copy").first.click()
    expect(form.get_by_role("button", name="Copied")).to_be_visible()


def test_a_double_click_makes_one_task(form: Page, site: Site) -> None:
    field(form, "Start command").fill("true")
    field(form, "Name").fill("clicked twice")
    form.get_by_role("button", name="Submit").dblclick()
    expect(form.get_by_role("heading", name="clicked twice")).to_be_visible()
    assert site.deed("newest").startswith("1 ")


def test_a_refused_form_leads_to_its_faults_by_keyboard_and_they_go_once_mended(form: Page) -> None:
    form.locator("#optional summary").click()
    field(form, "Retries after failures").fill("-1")
    field(form, "Name").fill("kept as typed")
    form.keyboard.press("Enter")
    refused = form.locator("#refused")
    expect(refused).to_be_focused()
    form.locator("#optional").evaluate("part => { part.open = false }")
    form.keyboard.press("Tab")
    expect(refused.get_by_role("link", name="Start command")).to_be_focused()
    form.keyboard.press("Tab")
    form.keyboard.press("Enter")
    expect(field(form, "Retries after failures")).to_be_focused()
    form.keyboard.press("Control+a")
    form.keyboard.type("1")
    expect(form.locator("#id_retry_limit_error")).to_be_hidden()
    expect(form.locator("#id_start_cmd_error")).to_be_visible()
    expect(field(form, "Name")).to_have_value("kept as typed")
    field(form, "Start command").fill("true")
    expect(refused).to_be_hidden()


def test_a_value_that_was_changed_no_longer_says_where_it_came_from(form: Page) -> None:
    expect(form.locator("#id_host_num_origin")).to_be_visible()
    field(form, "Hosts").fill("2")
    expect(form.locator("#id_host_num_origin")).to_be_hidden()
    expect(form.locator("#id_is_elasticity_origin")).to_be_visible()
    form.locator("#id_is_elasticity_1").check(force=True)
    expect(form.locator("#id_is_elasticity_origin")).to_be_hidden()


def test_a_template_is_saved_opened_changed_and_removed(form: Page, site: Site) -> None:
    field(form, "Start command").fill("python nightly.py")
    form.locator("#save-template summary").click()
    field(form, "Name of the template").fill("Nightly")
    form.get_by_label("Who may see it").select_option("Members of ads")
    field(form, "What it is for").press("Enter")  # saves the template, and submits no task
    expect(form.get_by_text("The template “Nightly” was saved.")).to_be_visible()
    expect(field(form, "Start command")).to_have_value("python nightly.py")
    form.goto(f"{site.url}/templates/")
    form.get_by_role("link", name="Change Nightly").click()
    expect(field(form, "Name of the template")).to_have_value("Nightly")
    field(form, "What it is for").fill("each night")
    form.get_by_role("button", name="Change “Nightly”").click()
    expect(form.get_by_text("The template “Nightly” was saved.")).to_be_visible()
    form.get_by_role("button", name="Start from a template").click()
    form.get_by_role("link", name="All templates").click()
    expect(form.locator("main")).to_contain_text("each night")
    form.once("dialog", lambda dialog: dialog.accept())
    form.get_by_role("button", name="Remove Nightly").click()
    expect(form.locator("main .list-group")).not_to_contain_text("Nightly")


def test_going_back_after_a_submission_shows_what_was_typed_and_can_be_sent_again(form: Page) -> None:
    field(form, "Start command").fill("true")
    field(form, "Name").fill("and again")
    form.get_by_role("button", name="Submit").click()
    expect(form.get_by_role("heading", name="and again")).to_be_visible()
    form.go_back()
    expect(title(form)).to_have_text("Starts now")
    field(form, "Start command").fill("true again")
    form.get_by_role("button", name="Submit").click()
    expect(form.get_by_role("heading", name="New task")).to_have_count(0)


def test_where_the_platform_does_not_answer_the_page_says_so_and_asks_again(page: Page, site: Site) -> None:
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/new/")
    expect(title(page)).to_have_text("Starts now")
    page.route("**/tasks/new/preview/", lambda route: route.abort())
    field(page, "Hosts").fill("2")
    expect(page.locator("#unreachable")).to_be_visible()
    page.unroute("**/tasks/new/preview/")
    field(page, "Hosts").fill("1")
    expect(page.locator("#unreachable")).to_be_hidden()


def test_a_form_sent_while_the_platform_is_away_stays_says_so_and_is_submitted_later(
    page: Page, site: Site
) -> None:
    proxy = Proxy(site.url)
    log_in(page, proxy, "ann")
    page.goto(f"{proxy.url}/tasks/new/")
    expect(title(page)).to_have_text("Starts now")
    field(page, "Start command").fill("true although it was away")
    expect(page.locator("#json")).to_have_value(re.compile("although"))
    proxy.go_down()
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#unsent")).to_contain_text("Nothing was submitted: the platform does not answer.")
    expect(field(page, "Start command")).to_have_value("true although it was away")
    proxy.is_down = False
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="New task")).to_have_count(0)
    proxy.close()
    assert "true although it was away" in site.deed("newest")


def test_what_was_typed_outlives_the_session_and_is_submitted_after_a_login_in_another_tab(
    page: Page, site: Site
) -> None:
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/new/")
    expect(title(page)).to_have_text("Starts now")
    page.context.clear_cookies(name="sessionid")
    page.evaluate("document.body.dispatchEvent(new CustomEvent('taiji:pulse'))")
    expect(page.locator("#logged-out")).to_be_visible()
    field(page, "Start command").fill("true outlives")
    page.get_by_role("button", name="Submit").click()  # it goes nowhere, and nothing is lost
    expect(page.locator("#logged-out")).to_be_visible()
    expect(field(page, "Start command")).to_have_value("true outlives")
    with page.context.expect_page() as opened:
        page.locator("#logged-out a").click()
    other = opened.value
    log_in(other, site, "ann")
    other.close()
    page.get_by_role("button", name="Submit").click()  # asks first, then submits
    expect(page.get_by_role("heading", name="New task")).to_have_count(0)
    assert "true outlives" in site.deed("newest")


def test_a_page_without_a_form_leads_to_the_login_when_the_session_ended(page: Page, site: Site) -> None:
    log_in(page, site, "ann")
    page.goto(f"{site.url}/templates/")  # which asks nothing by itself meanwhile
    page.context.clear_cookies(name="sessionid")
    page.evaluate("document.body.dispatchEvent(new CustomEvent('taiji:pulse'))")
    page.wait_for_url("**/login/**")


def test_without_scripts_all_of_it_works_by_plain_loading(browser: Browser, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    log_in(page, site, "ann")
    page.goto(f"{site.url}/tasks/new/")
    page.locator("#id_GPUName").fill("M40")
    page.locator("#id_host_gpu_num").fill("4")
    page.locator("#id_start_cmd").fill("true")
    page.get_by_role("button", name="Check").click()
    expect(title(page)).to_have_text("Starts after evicting 1 task")
    page.get_by_role("button", name="On P40").click()
    expect(page.locator("#id_GPUName")).to_have_value("P40")
    expect(title(page)).to_have_text("Starts now")
    page.locator("#json").fill(SEED)
    page.get_by_role("button", name="Fill the form from it").click()
    expect(page.locator("#id_start_cmd")).to_have_value("python seed.py")
    expect(page.locator("#id_GPUName")).to_have_value("M40,P40")
    page.locator("#id_task_flag").fill("no scripts")
    page.locator("#id_task_flag").press("Enter")
    expect(page.get_by_role("heading", name="no scripts")).to_be_visible()
    context.close()


def test_a_click_on_free_cards_leads_to_a_task_without_help(ann: Page, site: Site) -> None:
    ann.goto(site.url)
    ann.get_by_role("link", name="P40").first.click()
    expect(ann.locator(".type-list li")).to_have_text([re.compile("P40")])
    expect(ann.locator("#id_GPUName_origin")).to_have_text("From the free cards that you clicked.")
    expect(ann.locator("#verdict")).to_contain_text("Still to fill in:")
    field(ann, "Name").fill("first try")
    field(ann, "Start command").fill("python train.py")
    expect(ann.locator("#verdict")).not_to_contain_text("Still to fill in:")
    expect(title(ann)).to_have_text("Starts now")
    ann.get_by_role("button", name="Submit").click()
    expect(ann.get_by_role("heading", name="first try")).to_be_visible()
