"""The first part of docs/operators.md, walked as it stands there: each bold word is clicked or filled in."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.agent.conftest import end_instance
from tests.browser.conftest import log_in
from tests.browser.data import ROOT
from tests.browser.site import Site

SECTION = "## A new business in five minutes\n"
BOLD = re.compile(r"\*\*(.+?)\*\*")
PASSWORD = "a-long-word-for-nobody-else"


class Guide:
    """What the guide says, taken in its order."""

    def __init__(self) -> None:
        """Read it."""
        text = (ROOT / "docs" / "operators.md").read_text().split(SECTION)[1].split("\n## ")[0]
        self._left = [words for words in BOLD.findall(text) if not words[0].isdecimal()]  # no heads of steps
        self._lines = re.findall(r"^/opt/taiji-agent/bin/taiji-agent (.+)$", text, re.MULTILINE)

    def says(self, words: str) -> str:
        """Return the words, which have to be the next ones of the guide."""
        assert self._left.pop(0) == words
        return words

    def command(self) -> list[str]:
        """Return the arguments of the next call of the agent."""
        return str(self._lines.pop(0)).split()

    @property
    def is_over(self) -> bool:
        """Say whether nothing is left."""
        return not self._left and not self._lines


class FirstHost:
    """A host with an agent of its own."""

    def __init__(self, folder: Path, site: Site) -> None:
        """Lay out its folders."""
        self._state, self._storage = folder / "state", folder / "storage"
        self._storage.mkdir()
        self._agent: subprocess.Popen[bytes] | None = None
        user = "root" if os.geteuid() == 0 else ""  # on a real host a user of its own
        self._ours = {
            "https://taiji.example.com": site.url,
            "TOKEN": "join",
            "/mnt/taiji": str(self._storage),
            "taiji": user,
        }

    def join(self, command: list[str]) -> str:
        """Join as the guide says; return what is printed."""
        given = [self._ours.get(word, word) for word in command]
        if not self._ours["taiji"]:
            given = given[: given.index("--task-user")]
        arguments = [*given, "--state", str(self._state), "--name", "first-host", "--engine", "none"]
        done = subprocess.run(
            [sys.executable, "-m", "cluster.agent", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, command: list[str]) -> None:
        """Run the agent, with cards that exist in name only."""
        more = ["--state", str(self._state), "--simulate", "P40:8"]
        self._agent = subprocess.Popen(
            [sys.executable, "-m", "cluster.agent", *command, *more], cwd=ROOT, stderr=subprocess.DEVNULL
        )

    def clear(self) -> None:
        """End what runs there."""
        if self._agent is not None:
            self._agent.terminate()
            self._agent.wait(10)
        for folder in (self._state / "instances").glob("*"):
            end_instance(folder)


@pytest.fixture
def host(tmp_path: Path, site: Site) -> Iterator[FirstHost]:
    """Return a machine that has not joined."""
    found = FirstHost(tmp_path, site)
    yield found
    found.clear()


@pytest.fixture
def bare(site: Site) -> Site:
    """Return the site as it is after its very first start: an operator and nothing else."""
    site.deed("bare")
    return site


def test_the_guide_leads_from_nothing_to_a_task_of_a_new_business(
    page: Page, bare: Site, host: FirstHost, complaints: list[str]
) -> None:
    guide = Guide()
    log_in(page, bare, "root")
    page.get_by_role("button", name="root").click()
    page.get_by_role("link", name=guide.says("Administration")).click()

    assert "has joined" in host.join(guide.command())
    host.run(guide.command())
    page.locator("#content-main").get_by_role("link", name=guide.says("Hosts"), exact=True).click()
    shown = page.locator("#result_list tbody tr")
    _until(page, lambda: expect(shown).to_contain_text("8", timeout=1000))
    expect(shown).to_contain_text("first-host")
    expect(shown).to_contain_text("Shenzhen")
    expect(shown).to_contain_text("ready")

    people = guide.says("Users")
    add, name, password, save = (guide.says(words) for words in ("Add user", "Username", "Password", "Save"))
    for person in ("lea", "max"):
        _section(page, bare, people)
        page.get_by_role("link", name=add).click()
        page.get_by_label(name, exact=False).first.fill(person)
        page.get_by_label(f"{password}:", exact=True).fill(PASSWORD)
        page.get_by_label(f"{password} confirmation:", exact=True).fill(PASSWORD)
        page.get_by_role("button", name=save, exact=True).click()
        expect(page.locator(".messagelist .success")).to_contain_text(person)

    _section(page, bare, guide.says("Businesses"))
    page.get_by_role("link", name=guide.says("Add business")).click()
    page.get_by_label(f"{guide.says('Business_flag')}:", exact=True).fill("vision")
    page.get_by_label(f"{guide.says('Name')}:", exact=True).fill("Vision")
    _fill_row(page, guide, "Quota", {"GPU type": "P40", "Cards": "6", "Reason": "the new team"})
    _fill_row(page, guide, "Default GPU type", {"GPU type": "P40"})
    _fill_row(page, guide, "Member", {"User": "lea", "Role": "lead"})
    page.get_by_role("button", name="Add another Member").click()
    _fill(page.locator("#member_set-1"), "User", "max")
    page.get_by_role("button", name=guide.says("Save"), exact=True).click()
    expect(page.locator(".messagelist .success")).to_contain_text("vision")

    page.get_by_role("link", name=guide.says("View site")).click()
    page.get_by_role("link", name=guide.says("Businesses")).click()
    page.get_by_role("link", name="vision", exact=True).click()
    expect(page.locator("#quota")).to_contain_text("0 of 6")
    expect(page.locator("#members")).to_contain_text("lea lead")
    expect(page.locator("#changes")).to_contain_text("the new team")

    _submit_as_a_member(page, bare, guide)
    assert guide.is_over
    assert complaints == []


def _section(page: Page, site: Site, name: str) -> None:
    """Go back to the administration, and into one of its lists."""
    page.goto(f"{site.url}/admin/")
    page.locator("#content-main").get_by_role("link", name=name, exact=True).click()


def _until(page: Page, seen: Callable[[], None]) -> None:
    """Look again until the host has reported."""
    until = time.monotonic() + 30
    while True:
        page.reload()
        try:
            return seen()
        except AssertionError:
            if time.monotonic() > until:
                raise


def _fill_row(page: Page, guide: Guide, kind: str, values: dict[str, str]) -> None:
    """Add a row to one of the tables of a form, and fill it in."""
    page.get_by_role("button", name=guide.says(f"Add another {kind}")).click()
    prefix = {"Quota": "quotas", "Default GPU type": "defaultgputype_set", "Member": "member_set"}[kind]
    for label, value in values.items():
        _fill(page.locator(f"#{prefix}-0"), guide.says(label), value)


def _fill(row: Locator, label: str, value: str) -> None:
    """Fill in the cell under a heading: by typing, by choosing, or by searching for what is offered."""
    cell = row.locator(f".field-{label.lower().replace(' ', '_')}")
    if cell.locator(".select2-selection").count():
        cell.locator(".select2-selection").click()
        row.page.locator(".select2-search__field").fill(value)
        row.page.locator(".select2-results__option", has_text=value).first.click()
    elif cell.locator("select").count():
        cell.locator("select").select_option(value)
    else:
        cell.locator("input").first.fill(value)


def _submit_as_a_member(page: Page, site: Site, guide: Guide) -> None:
    """Log in as a member, submit a task, and see it run on the first host to its end."""
    page.get_by_role("button", name="root").click()
    page.get_by_role("button", name=guide.says("Log out")).click()
    page.goto(f"{site.url}/login/")
    page.locator("#id_username").fill("max")
    page.locator("#id_password").fill(PASSWORD)
    page.locator("#id_password").press("Enter")
    page.get_by_role("navigation", name="Main").get_by_role("link", name=guide.says("New task")).click()
    page.get_by_role("textbox", name=guide.says("Start command"), exact=True).fill("echo it works")
    page.locator("#answer").get_by_role("button", name=guide.says("Submit"), exact=True).click()
    expect(page.locator("#live")).to_be_visible()
    for _ in range(60):
        site.deed("pass")
        page.reload()
        if page.locator("#live", has_text="succeeded").count():
            return
        time.sleep(0.5)
    pytest.fail(page.locator("#live").inner_text())
