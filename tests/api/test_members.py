"""The people of a business over the API: operators take them in and put them out, and it holds at once."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from quotas.audit import AuditEntry
from quotas.models import Member
from tests.api.conftest import Caller, doc, errors
from tests.world import World


def send(caller: Caller, method: str, user: str, body: object = None, business: int = 0) -> Any:
    return getattr(caller.client, method)(
        f"/api/v1/businesses/{business or 1}/members/{user}/",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Token {caller.token}"},
    )


@pytest.fixture
def root(ann: Caller, world: World) -> Caller:
    """Return an operator, in a world with ann of ads."""
    return Caller(world.operator())


@pytest.fixture
def ads(ann: Caller, world: World) -> int:
    """Return the id of ads."""
    return int(world.business("ads").pk)


def test_somebody_who_is_taken_in_submits_at_once_and_put_out_no_more(
    root: Caller, ads: int, world: World
) -> None:
    bob = Caller(world.user("bob"))
    assert bob.post("tasks/", doc()).status_code == 400
    assert send(root, "put", "bob", {"role": "member"}, ads).status_code == 201
    assert bob.post("tasks/", doc()).status_code == 201
    answer = send(root, "put", "bob", {"role": "lead"}, ads)
    assert (answer.status_code, answer.json()) == (200, {"user": "bob", "role": "lead"})
    assert bob.get(f"businesses/{ads}/members/").status_code == 200
    assert send(root, "delete", "bob", None, ads).status_code == 204
    assert bob.post("tasks/", doc()).status_code == 400
    assert send(root, "delete", "bob", None, ads).status_code == 404
    deeds = list(AuditEntry.objects.filter(kind="member").order_by("id").values_list("deed", "actor"))
    assert deeds == [("member.added", "root"), ("member.changed", "root"), ("member.removed", "root")]
    history: Any = Member.history
    assert [(each.history_type, each.history_user) for each in history.order_by("history_id")][-1] == (
        "-",
        User.objects.get(username="root"),
    )


def test_the_same_again_changes_and_writes_nothing(root: Caller, ads: int) -> None:
    assert send(root, "put", "ann", {"role": "member"}, ads).status_code == 200
    assert not AuditEntry.objects.exists()


def test_what_operators_decide_the_provider_changes_no_more(root: Caller, ads: int) -> None:
    Member.objects.update(provider=True)
    send(root, "put", "ann", {"role": "member"}, ads)
    assert not Member.objects.get(user__username="ann").provider


@pytest.mark.parametrize(
    ("user", "body", "field"),
    [
        ("nobody", {"role": "lead"}, "user"),
        ("ann", {"role": "boss"}, "role"),
        ("ann", {}, "role"),
        ("ann", {"role": "lead", "since": 1}, "since"),
    ],
)
def test_what_is_wrong_is_named(user: str, body: object, field: str, root: Caller, ads: int) -> None:
    assert set(errors(send(root, "put", user, body, ads))) == {field}


def test_leads_look_and_do_not_change(ann: Caller, ads: int, world: World) -> None:
    lead = Caller(world.user("lea", "ads", role="lead"))
    assert send(lead, "put", "ann", {"role": "lead"}, ads).status_code == 403
    assert send(lead, "delete", "ann", None, ads).status_code == 403
    assert send(ann, "put", "ann", {"role": "lead"}, ads).status_code == 404
