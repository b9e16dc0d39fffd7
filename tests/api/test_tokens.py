"""Tokens over the API: shown once, never wider than the one that makes them, gone at once."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.models import Task
from quotas import issuing
from quotas.audit import AuditEntry
from quotas.models import ApiToken, Member
from tests.api.conftest import Caller, doc, errors
from tests.world import World

NEW = {"name": "ci", "scope": "submit"}


def using(caller: Caller, secret: str) -> Caller:
    """Return somebody who calls with this token."""
    other = Caller.__new__(Caller)
    other.user, other.token, other.client = caller.user, secret, Client()
    return other


def delete(caller: Caller, pk: int) -> int:
    answer = caller.client.delete(f"/api/v1/tokens/{pk}/", headers={"Authorization": f"Token {caller.token}"})
    return int(answer.status_code)


def test_a_token_is_shown_once_and_opens_what_its_scope_says(ann: Caller) -> None:
    made = ann.post("tokens/", NEW | {"days": 30})
    assert made.status_code == 201
    secret = made.json()["token"]
    listed = ann.get("tokens/").json()["results"]
    assert [one["name"] for one in listed] == ["ci", "test"]
    assert secret not in ann.get("tokens/").content.decode()
    assert listed[0]["hint"] == secret[:4]
    ends = ApiToken.objects.get(name="ci").expires_at
    assert ends is not None
    assert timedelta(days=29) < ends - timezone.now() <= timedelta(days=30)
    assert using(ann, secret).post("tasks/", doc()).status_code == 201
    assert using(ann, secret).post("tokens/", NEW).status_code == 403, "its scope does not reach so far"


def test_its_text_is_kept_nowhere_even_where_a_key_came_along(ann: Caller) -> None:
    first = ann.post("tokens/", NEW, Idempotency_Key="k").json()["token"]
    second = ann.post("tokens/", NEW, Idempotency_Key="k").json()["token"]
    assert first != second


def test_a_token_makes_none_that_lives_longer_or_knows_more_businesses(ann: Caller, world: World) -> None:
    world.user("ann", "speech")
    ends = timezone.now() + timedelta(days=2)
    ads = world.business("ads")
    _token, secret = issuing.issue(ann.user, "bound", scope="manage", expires_at=ends, business=ads)
    bound = using(ann, secret)
    made = bound.post("tokens/", {"name": "child", "scope": "manage"}).json()
    assert made["business"] == "ads"
    assert made["expires_at"] == ends.isoformat().replace("+00:00", "Z")
    assert errors(bound.post("tokens/", NEW | {"business": "speech"})) == {"business": "unknown"}
    assert [one["name"] for one in bound.get("tokens/").json()["results"]] == ["child", "bound"]
    assert delete(bound, ApiToken.objects.get(name="test").pk) == 404, "it does not exist for this token"


def test_a_token_that_reads_makes_none_however_it_asks(ann: Caller) -> None:
    _token, secret = issuing.issue(ann.user, "reads", scope="read", expires_at=None, business=None)
    assert using(ann, secret).get("tokens/").status_code == 200
    assert using(ann, secret).post("tokens/", {"name": "x", "scope": "read"}).status_code == 403


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scope": "read"}, "name"),
        ({"name": "ci", "scope": "all"}, "scope"),
        (NEW | {"days": 0}, "days"),
        (NEW | {"days": "30"}, "days"),
        (NEW | {"business": "speech"}, "business"),
        (NEW | {"name": "a\x00b"}, "name"),
        (NEW | {"user": "bob"}, "user"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(body: dict[str, Any], field: str, ann: Caller) -> None:
    answer = ann.post("tokens/", body)
    assert answer.status_code == 400
    assert set(errors(answer)) == {field}
    assert ApiToken.objects.count() == 1


def test_all_that_is_wrong_is_told_together(ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuing, "MOST", 1)
    answer = ann.post("tokens/", {"scope": "all", "days": 0, "business": "speech", "colour": "red"})
    assert errors(answer) == {
        "colour": "unknown",
        "name": "required",
        "scope": "choice",
        "days": "range",
        "business": "unknown",
        "": "too_many",
    }


def test_a_bound_token_that_outlived_a_membership_opens_nothing(ann: Caller, world: World) -> None:
    world.user("ann", "speech")
    ads = world.business("ads")
    _token, secret = issuing.issue(ann.user, "bound", scope="manage", expires_at=None, business=ads)
    assert using(ann, secret).get("me/").status_code == 200
    Member.objects.filter(user=ann.user, business=ads).delete()  # by a way that ends no tokens
    for path in ("me/", "free-cards/", "hosts/", "tokens/"):
        assert using(ann, secret).get(path).status_code == 401, path


def test_one_too_many_is_refused(ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuing, "MOST", 1)
    assert errors(ann.post("tokens/", NEW)) == {"": "too_many"}


def test_one_that_is_revoked_opens_nothing_and_others_do_not_exist(ann: Caller, outsider: Caller) -> None:
    secret = ann.post("tokens/", NEW).json()["token"]
    pk = ApiToken.objects.get(name="ci").pk
    assert delete(outsider, pk) == 404
    assert delete(ann, pk) == 204
    assert using(ann, secret).get("me/").status_code == 401
    assert list(AuditEntry.objects.order_by("id").values_list("deed", flat=True)) == [
        "token.made",
        "token.revoked",
    ]
    assert not Task.objects.exists()


def test_a_lead_ends_the_tokens_of_his_business_and_no_others(ann: Caller, world: World) -> None:
    lead = Caller(world.user("lea", "ads", role="lead"))
    ann.post("tokens/", NEW | {"business": "ads"})
    assert {one["name"] for one in lead.get("tokens/").json()["results"]} == {"ci", "test"}
    assert delete(lead, ApiToken.objects.get(name="ci").pk) == 204
    assert delete(lead, ApiToken.objects.get(user=ann.user).pk) == 404
