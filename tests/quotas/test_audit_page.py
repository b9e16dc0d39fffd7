"""The page of the audit: searched, page by page, and exported."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from jobs.portal import audit_page
from quotas import audit, origin
from quotas.audit import AuditEntry
from quotas.models import PlatformRole, Quota
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


def shown(browser: Client) -> list[str]:
    return [line.args for line in browser.get("/audit/").context["lines"]]


def test_what_operators_changed_in_the_admin_is_a_sentence_with_their_reason(
    world: World, auditor: Client
) -> None:
    business = world.business("ads", P40=16)
    quota = Quota.objects.get()
    root = Client()
    root.force_login(world.operator())
    ids = {"business": business.pk, "gpu_type": quota.gpu_type_id}
    page = f"/admin/quotas/quota/{quota.pk}/"
    root.post(f"{page}change/", {**ids, "cards": 8, "elastic_cards": 4, "reason": "the sale is over"})
    inline: dict[str, object] = {"flag": "ads", "name": "Ads"}
    for prefix, rows in (("quotas", 1), ("defaultgputype_set", 0), ("member_set", 0)):
        inline |= {f"{prefix}-TOTAL_FORMS": rows, f"{prefix}-INITIAL_FORMS": rows}
    row = {"id": quota.pk, **ids, "cards": 7, "elastic_cards": 4, "reason": "one is broken"}
    inline |= {f"quotas-0-{name}": value for name, value in row.items()}
    root.post(f"/admin/quotas/business/{business.pk}/change/", inline)
    root.post(f"{page}delete/", {"post": "yes", "reason": "they left"})
    assert shown(auditor) == [
        "reason: they left",
        "Changed Name. Changed Cards for quota “ads: 7 × P40”. · reason: one is broken",
        "Changed Cards and Elastic cards at most. · reason: the sale is over",
    ]
    auditor.post("/i18n/setlang/", {"language": "zh-hans"})
    assert shown(auditor) == [
        "原因：they left",
        "已修改名称。 修改了 额度“ads: 7 × P40”的 卡数。 · 原因：one is broken",
        "已修改卡数 和 弹性卡上限。 · 原因：the sale is over",
    ]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, ""),
        ({"by_table": True, "reason": "spring"}, "with a table that was read in · reason: spring"),
        ({"scope": "read", "until": None, "business": ""}, "scope: read"),
        ({"filters": {"user": "ann", "deed": "task."}}, "filters: deed=task., user=ann"),
        ({"said": "Token reset."}, "Token reset."),
        ({"said": [{"added": {}}]}, "Added."),
        ({"said": [{"deleted": {"name": "member", "object": "ann – ads"}}]}, "Deleted member “ann – ads”."),
        ({"new-one": 3}, "new-one: 3"),
    ],
)
def test_what_is_known_of_a_deed_besides_stands_there_in_words(
    args: dict[str, Any], words: str, auditor: Client
) -> None:
    audit.note("quota.changed", by=None, **args)
    assert shown(auditor) == [words]
