"""The audit over the API: searched and taken as a file by those who see all, and by nobody else."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from jobs import audit_search
from jobs.api import shapes
from quotas import audit, origin
from quotas.audit import AuditEntry
from quotas.models import ApiToken
from quotas.origin import Origin
from tests.api.conftest import Caller, errors
from tests.api.test_files import download, table
from tests.world import World


@pytest.fixture
def eve(world: World) -> Caller:
    """Return an auditor, where three things were done."""
    ann = world.user("ann", "ads")
    with origin.coming(Origin(address="192.0.2.1")):
        audit.note("login", by=ann)
    with origin.coming(Origin(address="198.51.100.7", token_id=7)):
        audit.note("task.stop", by=ann, on=world.task(), why="slow")
        audit.note("token.made", by=world.user("bob"), name="=cmd|' /C calc'!A0")
    return Caller(world.auditor())


def deeds(caller: Caller, query: str = "") -> list[str]:
    return [row["deed"] for row in caller.get(f"audit/?{query}").json()["results"]]


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
        ("since=2100-01-01T00:00:00Z", []),
        ("until=2100-01-01T00:00:00%2B08:00", ["token.made", "task.stop", "login"]),
        ("user=%00", []),
    ],
)
def test_all_that_is_asked_for_has_to_fit(query: str, found: list[str], eve: Caller) -> None:
    assert deeds(eve, query) == found


def test_an_entry_says_who_did_what_to_what_from_where(eve: Caller) -> None:
    page = eve.get("audit/?kind=task").json()
    Draft202012Validator(json.loads(json.dumps(shapes.page_of(shapes.AUDIT_ENTRY)))).validate(page)
    (row,) = page["results"]
    assert (row["user"], row["address"], row["token_id"], row["args"]) == (
        *("ann", "198.51.100.7"),
        *(7, {"why": "slow"}),
    )
    assert eve.get("audit/?kind=task&fields=user,deed").json()["results"] == [
        {"user": "ann", "deed": "task.stop"}
    ]


def test_pages_go_on_behind_the_last_entry_and_keep_the_search(eve: Caller) -> None:
    first = eve.get("audit/?user=ann&limit=1").json()
    audit.note("logout", by=None)  # what comes meanwhile moves nothing
    second = eve.get(first["next"].partition("/api/v1/")[2]).json()
    assert [row["deed"] for row in (*first["results"], *second["results"])] == ["task.stop", "login"]
    assert second["next"] is None


def test_the_file_holds_what_was_searched_and_no_formula_and_that_it_was_taken_is_noted(
    eve: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_search, "CHUNK", 1)
    found = table(eve, "audit/csv/?address=198.51.100.7")
    assert [row["deed"] for row in found] == ["token.made", "task.stop"]
    assert found[0]["target"] == "'=cmd|' /C calc'!A0"
    taken = AuditEntry.objects.get(deed="audit.exported")
    assert (taken.actor, taken.args) == (eve.user.username, {"filters": {"address": "198.51.100.7"}})
    assert taken.token_id == ApiToken.objects.get(user=eve.user).pk


def test_a_file_of_what_no_row_can_hold_is_empty_and_noted_too(eve: Caller) -> None:
    assert table(eve, "audit/csv/?user=%00&since=2030-01-31T08:00:00Z") == []
    taken = AuditEntry.objects.get(deed="audit.exported")
    assert taken.args == {"filters": {"user": "?", "since": "2030-01-31 08:00:00+00:00"}}


@pytest.mark.parametrize("path", ["audit/", "audit/csv/"])
@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("since=yesterday", {"since": "time"}),
        ("until=2030-01-31T08:00:00", {"until": "time"}),
        ("usr=ann", {"usr": "unknown"}),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_noted(
    path: str, query: str, refused: dict[str, str], eve: Caller
) -> None:
    answer, _data = download(eve, f"{path}?{query}", accept="text/csv" if "csv" in path else "*/*")
    assert (answer.status_code, errors(answer)) == (400, refused)
    assert not AuditEntry.objects.filter(deed="audit.exported").exists()


def test_it_does_not_exist_for_members_leads_or_a_token_for_one_business(world: World, eve: Caller) -> None:
    root = world.operator()
    bound: Any = Caller(root)
    ApiToken.objects.filter(user=root).update(business=world.business("ads"))
    lead = Caller(world.user("led", "ads", role="lead"))
    for somebody in (bound, lead):
        for path in ("audit/", "audit/csv/"):
            assert somebody.get(path).status_code == 404
    assert not AuditEntry.objects.filter(deed="audit.exported").exists()
