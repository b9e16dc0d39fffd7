"""The page of the audit: searched, page by page, and exported."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from jobs.portal import audit_page
from quotas import audit, origin
from quotas.audit import AuditEntry
from quotas.models import PlatformRole
from quotas.origin import Origin
from tests.world import World


@pytest.fixture
def auditor(world: World) -> Client:
    PlatformRole.objects.create(user=world.user("eve"), role="auditor")
    client = Client()
    client.force_login(world.user("eve"))
    return client


@pytest.fixture
def entries(world: World) -> None:
    ann = world.user("ann")
    with origin.coming(Origin(address="192.0.2.1")):
        audit.note("login", by=ann)
    with origin.coming(Origin(address="198.51.100.7", token_id=7)):
        audit.note("task.stop", by=ann, on=world.task())
        audit.note("token.made", by=world.user("bob"), name="=cmd|' /C calc'!A0")


def deeds(page: Any) -> list[str]:
    return [line.deed for line in page.context["lines"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["token.made", "task.stop", "login"]),
        ("user=ann", ["task.stop", "login"]),
        ("user=an", []),
        ("deed=task.", ["task.stop"]),
        ("kind=task", ["task.stop"]),
        ("address=192.0.2.1", ["login"]),
        ("user=ann&address=198.51.100.7", ["task.stop"]),
        ("since=2100-01-01", []),
        ("until=2100-01-01", ["token.made", "task.stop", "login"]),
    ],
)
def test_all_that_is_filled_in_has_to_fit(
    query: str, found: list[str], auditor: Client, entries: None
) -> None:
    assert deeds(auditor.get(f"/audit/?{query}")) == found


def test_a_time_that_is_none_is_said_and_finds_nothing(auditor: Client, entries: None) -> None:
    page = auditor.get("/audit/?since=yesterday")
    assert page.status_code == 400
    assert deeds(page) == []
    assert auditor.get("/audit/csv/?since=yesterday").status_code == 400


def test_pages_go_on_behind_the_last_entry_and_keep_the_search(
    auditor: Client, entries: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_page, "PAGE", 1)
    first = auditor.get("/audit/?user=ann")
    audit.note("logout", by=None)  # what comes meanwhile moves nothing
    second = auditor.get(f"/audit/?{first.context['next']}")
    assert (deeds(first), deeds(second), second.context["next"]) == (["task.stop"], ["login"], "")


def test_the_file_holds_what_was_searched_and_no_formula(
    auditor: Client, entries: None, world: World
) -> None:
    async def ask() -> bytes:
        browser = AsyncClient()
        await browser.aforce_login(eve)
        answer: Any = await browser.get("/audit/csv/?address=198.51.100.7")
        return b"".join([part async for part in answer.streaming_content])

    eve = world.user("eve")
    lines = async_to_sync(ask)().decode("utf-8-sig").splitlines()
    assert lines[0].startswith("id,at,user,")
    assert len(lines) == 3
    assert "'=cmd|' /C calc'!A0" in lines[1]
    assert AuditEntry.objects.filter(deed="audit.exported", actor="eve").count() == 1


def test_what_the_address_says_besides_is_not_written_down(auditor: Client, entries: None) -> None:
    answer = auditor.get("/audit/csv/?user=ann&password=hush-hush&%00=%00")
    assert answer.status_code == 200
    assert AuditEntry.objects.get(deed="audit.exported").args == {"filters": {"user": "ann"}}
