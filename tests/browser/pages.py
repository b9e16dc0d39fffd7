"""Every page of the portal as people meet it, for all that looks at each of them: the pictures and the tests."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import log_in
from tests.browser.site import Site

Ids = dict[str, int]


def _leave(_page: Page) -> None:
    """Leave a page as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One page in one condition."""

    name: str
    address: str  # with names of the tasks that the deed `rich` made
    bring: Callable[[Page], None] = _leave  # into the condition
    refused: bool = False  # an answer on the way is an error, and the console says so
    who: str = ""  # logs in for it, and stays for those that follow
    portal: bool = True  # the admin has Django's own frame
    tall: bool = True  # what lies over a page is as high as the window


def ticked(page: Page) -> None:
    """Tick a task of the list."""
    page.locator("#list tbody input").first.check()


def asked(page: Page) -> None:
    """Open the question whether all that match are to be held."""
    page.locator("[name=all]").check()
    page.locator("[name=verb][value=hold]").click()
    expect(page.locator(".bulk-question")).to_be_visible()


def evicting(page: Page) -> None:
    """Ask for what others hold."""
    page.locator("#id_is_elasticity_0").check(force=True)
    page.locator("[data-key='add M40']").click()
    page.locator("#id_host_gpu_num").fill("4")
    expect(page.locator(".way").first).to_be_visible()


def faulty(page: Page) -> None:
    """Send a form with faults, and a text that cannot be read."""
    page.locator("#id_host_gpu_num").fill("99")
    page.locator("#json").fill("{")
    expect(page.locator("#json-faults")).to_be_visible()
    page.locator("#answer .btn-primary").click()
    expect(page.locator("#refused")).to_be_visible()
    expect(page.locator("#verdict .verdict-title")).to_be_visible()


def logged_out(page: Page) -> None:
    """Let the session end while a form is being filled in."""
    expect(page.locator("#verdict .verdict-title")).to_be_visible()
    page.route("**/scheduler/", lambda route: route.fulfill(status=401))
    page.evaluate("document.body.dispatchEvent(new CustomEvent('taiji:pulse'))")
    expect(page.locator("#logged-out")).to_be_visible()
    page.unroute("**/scheduler/")


def answered(page: Page) -> None:
    """Wait for the first verdict."""
    expect(page.locator("#verdict .verdict-title")).to_be_visible()


def drawn(page: Page) -> None:
    """Wait for the log and the charts."""
    expect(page.locator("#log-text .log-line").first).to_be_visible()
    expect(page.locator("#charts figure")).to_have_count(4)


def charted(page: Page) -> None:
    """Wait for the bars of the card-hours."""
    expect(page.locator("#hours-plot canvas")).to_be_visible()


def mapped(page: Page) -> None:
    """Wait until the map of the cards is drawn."""
    expect(page.locator("#map[data-cards]")).to_be_visible()


def opened(page: Page) -> None:
    """Open a host beside the map, by the keyboard."""
    mapped(page)
    page.locator(".map-canvas").first.press("ArrowRight")
    page.locator(".map-canvas").first.press("Enter")
    expect(page.locator("#drawer #host-title")).to_be_visible()


def host_charted(page: Page) -> None:
    """Wait for the charts of a host's cards."""
    expect(page.locator(".host-charts figure")).to_have_count(3)


def plotted(page: Page) -> None:
    """Wait for the plots."""
    expect(page.locator("figure.plot canvas").first).to_be_visible()


def unchanged(page: Page) -> None:
    """Ask what would have been without a change, and with a host that is not there."""
    page.locator("#id_cordon").fill("nobody")
    page.locator("main form button[type=submit]").click()
    expect(page.locator("#id_cordon_error")).to_be_visible()


def offered(page: Page) -> None:
    """Hand in a table that changes a quota, adds one and leaves one as it is."""
    rows = "business,gpu_type,region,cards,elastic_cards", "ads,P40,,24,8", "games,L40,,16,", "vision,P40,,4,"
    table: FilePayload = {"name": "quotas.csv", "mimeType": "text/csv", "buffer": "\r\n".join(rows).encode()}
    page.locator("#id_import_file").set_input_files(files=[table])
    page.locator("#id_reason").fill("the plan of spring")
    page.locator("input[type=submit]").click()
    expect(page.locator(".import-preview")).to_be_visible()


def with_token(page: Page) -> None:
    """Make a token, which is shown this once."""
    page.locator("#id_name").fill("sweeps of the night")
    page.locator("form[action$='/account/tokens/'] button[type=submit]").click()
    expect(page.locator("#secret")).to_be_visible()


def forged(page: Page) -> None:
    """Send a form whose token is not known any more."""
    page.context.clear_cookies(name="csrftoken")
    page.evaluate("document.querySelector('form[action$=\"logout/\"]').submit()")
    expect(page.locator(".empty")).to_be_visible()


LOOKS = (
    Look(name="login", address="/login/"),
    Look(name="home", address="/"),
    Look(name="tasks", address="/tasks/"),
    Look(name="tasks-filtered", address="/tasks/?state=failed&tag=night&submitted_from=7d"),
    Look(name="tasks-faulty", address="/tasks/?state=odd&reason=no_cards"),
    Look(name="tasks-further", address="/tasks/?below=40"),
    Look(name="tasks-none", address="/tasks/?q=nothing-is-called-so"),
    Look(name="tasks-ticked", address="/tasks/?q=sweep", bring=ticked),
    Look(name="bulk", address="/tasks/?q=sweep", bring=asked),
    Look(name="submit", address="/tasks/new/?gpu_type=P40&region=Shenzhen", bring=answered),
    Look(name="submit-evicts", address="/tasks/new/", bring=evicting),
    Look(name="submit-refused", address="/tasks/new/", bring=faulty),
    Look(name="submit-logged-out", address="/tasks/new/", bring=logged_out, refused=True),
    Look(name="templates", address="/templates/"),
    Look(name="businesses", address="/businesses/"),
    Look(name="business", address="/businesses/{ads}/", bring=charted),
    Look(name="task-waits", address="/tasks/{waits}/"),
    Look(name="task-over-quota", address="/tasks/{over}/"),
    Look(name="task-runs", address="/tasks/{story}/", bring=drawn),
    Look(name="task-evicted", address="/tasks/2/"),
    Look(name="task-kept", address="/tasks/8/"),
    Look(name="task-failed", address="/tasks/{failed}/"),
    Look(name="log", address="/tasks/{story}/log/"),
    Look(name="account", address="/account/"),
    Look(name="account-token", address="/account/", bring=with_token),
    Look(name="missing", address="/tasks/999999/", refused=True),
    Look(name="too-old", address="/templates/", bring=forged, refused=True),
    Look(name="scheduler", address="/cluster/scheduler/", bring=plotted, who="root"),
    Look(name="account-operator", address="/account/"),
    Look(name="audit", address="/audit/"),
    Look(name="audit-searched", address="/audit/?user=ann&deed=login"),
    Look(name="audit-faulty", address="/audit/?since=yesterday", refused=True),
    Look(name="audit-none", address="/audit/?user=nobody-is-called-so"),
    Look(name="hosts", address="/hosts/", bring=mapped),
    Look(name="hosts-filtered", address="/hosts/?gpu_type=L40", bring=mapped),
    Look(name="hosts-drawer", address="/hosts/?gpu_type=L40&q=map-1", bring=opened, tall=False),
    Look(name="hosts-none", address="/hosts/?q=nothing-is-called-so", bring=mapped),
    Look(name="host", address="/hosts/{busy_host}/", bring=host_charted),
    Look(name="host-cordoned", address="/hosts/{cordoned_host}/"),
    Look(name="host-drain", address="/hosts/{busy_host}/drain/"),
    Look(name="host-remove", address="/hosts/{cordoned_host}/remove/"),
    Look(name="reservations", address="/cluster/reservations/"),
    Look(name="reservations-zone", address="/cluster/reservations/?zone=Asia/Shanghai"),
    Look(name="what-ifs", address="/cluster/what-if/"),
    Look(name="what-if-new", address="/cluster/what-if/new/"),
    Look(name="what-if-faulty", address="/cluster/what-if/new/", bring=unchanged, refused=True),
    Look(name="what-if-replayed", address="/cluster/what-if/{replayed}/"),
    Look(name="what-if", address="/cluster/what-if/{answered}/", bring=plotted),
    Look(name="import", address="/admin/quotas/quota/import/", bring=offered, portal=False),
)


def prepare(site: Site) -> Ids:
    """Fill the site with all that the pages are to show, and return the ids of its tasks by name."""
    for deed in ("fleet", "looked", "start", "crowd", "many"):
        site.deed(deed)
    ids: Ids = {}
    for deed in ("rich", "business", "operate"):
        ids |= json.loads(site.deed(deed))
    return ids


def visits(page: Page, site: Site, ids: Ids, *, unfolded: bool) -> Iterator[Look]:
    """Go from page to page; `unfolded` opens all that can be opened."""
    for look in LOOKS:
        if look.name == "home":
            log_in(page, site, "ann")
        if look.who:
            page.context.clear_cookies()
            log_in(page, site, look.who)
        page.goto(site.url + re.sub(r"{(\w+)}", lambda name: str(ids[name[1]]), look.address))
        look.bring(page)
        if unfolded:
            page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        yield look
