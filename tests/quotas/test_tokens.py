"""Tokens: how far and how long they go, and who deals with them."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from jobs.models import Task
from quotas.audit import AuditEntry
from quotas.models import ApiToken, Member
from quotas.tokens import digest
from tests.world import World

DOCUMENT = {"business_flag": "ads", "start_cmd": "true"}


@pytest.fixture
def ann(world: World) -> User:
    world.host("h1", 8, "P40")
    world.business("ads", P40=16)
    world.business("speech", P40=16)
    return world.user("ann", "ads", "speech")


def call(method: str, path: str, secret: str, body: object = None, **more: Any) -> Any:
    headers = {"Authorization": f"Token {secret}"}
    send = getattr(Client(), method)
    return send(f"/api/v1/{path}", body, content_type="application/json", headers=headers, **more)


@pytest.mark.parametrize(
    ("scope", "looks", "previews", "submits", "manages"),
    [
        ("read", 200, 200, 403, 403),
        ("submit", 200, 200, 201, 403),
        ("manage", 200, 200, 201, 200),
    ],
)
def test_a_token_does_what_its_scope_includes(
    scope: str, looks: int, previews: int, submits: int, manages: int, world: World, ann: User
) -> None:
    root = world.operator()
    secret = ApiToken.objects.issue(root, "ci", scope=scope)
    host = world.host("h1")
    assert call("get", "tasks/", secret).status_code == looks
    assert call("post", "tasks/preview/", secret, DOCUMENT).status_code == previews
    assert call("post", "tasks/", secret, DOCUMENT).status_code == submits
    answer = call("post", f"hosts/{host.pk}/cordon/", secret, {"reason": "the fan is loud"})
    assert answer.status_code == manages
    if manages == 403:
        assert "scope manage" in answer.json()["errors"][0]["message"]


def test_a_token_whose_time_is_over_opens_nothing(ann: User) -> None:
    secret = ApiToken.objects.issue(ann, "ci", expires_at=timezone.now() + timedelta(minutes=1))
    assert call("get", "tasks/", secret).status_code == 200
    ApiToken.objects.update(expires_at=timezone.now())
    assert call("get", "tasks/", secret).status_code == 401


def test_a_token_made_before_there_were_scopes_goes_on(ann: User) -> None:
    ApiToken.objects.create(user=ann, name="old", digest=digest("an-old-token"))
    assert call("post", "tasks/", "an-old-token", DOCUMENT).status_code == 201


def test_a_token_for_one_business_knows_no_other(world: World, ann: User) -> None:
    ads, speech = world.task("ads", "ann"), world.task("speech", "ann")
    secret = ApiToken.objects.issue(ann, "ci", business_id=world.business("ads").pk)
    assert call("get", f"tasks/{ads.pk}/", secret).status_code == 200
    assert call("get", f"tasks/{speech.pk}/", secret).status_code == 404
    assert call("post", f"tasks/{speech.pk}/stop/", secret).status_code == 404
    assert call("post", "tasks/", secret, {**DOCUMENT, "business_flag": "speech"}).status_code == 400
    listed = call("get", "businesses/", secret).content.decode()
    assert "ads" in listed
    assert "speech" not in listed


def test_a_token_for_one_business_makes_no_operator_of_its_user(world: World, ann: User) -> None:
    ann.is_superuser = True
    ann.save()
    secret = ApiToken.objects.issue(ann, "ci", business_id=world.business("ads").pk)
    assert call("post", f"hosts/{world.host('h1').pk}/cordon/", secret, {"reason": "x"}).status_code == 403


@pytest.mark.parametrize("name", ["Token", "token", "access_token", "API_KEY"])
def test_a_token_in_the_address_is_refused_even_where_it_is_valid(name: str, ann: User) -> None:
    secret = ApiToken.objects.issue(ann, "ci")
    for answer in (
        Client().get("/api/v1/tasks/", {name: secret}),
        call("get", f"tasks/?{name}={secret}", secret),
    ):
        assert answer.status_code == 400
        [error] = answer.json()["errors"]
        assert (error["field"], error["code"]) == (name, "token_in_address")
        assert secret not in answer.content.decode()


def test_the_last_use_is_written_once_a_minute(ann: User, django_assert_num_queries: Any) -> None:
    secret = ApiToken.objects.issue(ann, "ci")
    call("get", "businesses/", secret)
    first = ApiToken.objects.get().last_used_at
    assert first is not None
    call("get", "businesses/", secret)
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    call("get", "businesses/", secret)
    again = ApiToken.objects.get().last_used_at
    assert again is not None
    assert again > first


@pytest.fixture
def page(ann: User) -> Client:
    client = Client()
    client.force_login(ann)
    return client


def made(client: Client, **form: object) -> str:
    answer = client.post("/account/tokens/", {"name": "ci", "scope": "submit", "days": "90", **form})
    assert answer.status_code == 201, answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    text = answer.content.decode()
    return text.split('id="secret"')[1].split(">")[1].split("<")[0]


def test_a_token_is_made_on_the_page_and_shown_this_once(page: Client, ann: User) -> None:
    secret = made(page)
    token = ApiToken.objects.get()
    assert (token.user, token.scope, token.digest) == (ann, "submit", digest(secret))
    assert token.expires_at is not None
    assert 89 < (token.expires_at - timezone.now()) / timedelta(days=1) <= 90
    assert call("post", "tasks/", secret, DOCUMENT).status_code == 201
    shown = page.get("/account/").content.decode()
    assert secret not in shown
    assert f"{secret[:4]}…" in shown
    [entry] = AuditEntry.objects.filter(deed="token.made")
    assert (entry.actor, entry.target_id) == ("ann", str(token.pk))
    assert secret not in str(entry.args) + entry.target


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"name": "a\x00b"}, {"scope": "all"}, {"days": "10000"}, {"business": "999"}]
)
def test_a_token_that_cannot_be_is_refused(wrong: dict[str, str], page: Client) -> None:
    answer = page.post("/account/tokens/", {"name": "ci", "scope": "read", "days": "30", **wrong})
    assert answer.status_code == 400
    assert not ApiToken.objects.exists()


def test_nobody_makes_a_token_for_a_business_of_others(page: Client, world: World) -> None:
    theirs = world.business("search")
    answer = page.post(
        "/account/tokens/", {"name": "ci", "scope": "read", "days": "30", "business": theirs.pk}
    )
    assert answer.status_code == 400


@pytest.mark.parametrize(("role", "status"), [("lead", 302), ("member", 404)])
def test_a_lead_revokes_the_tokens_for_his_business_and_no_other(
    role: str, status: int, world: World, ann: User
) -> None:
    bound = ApiToken.objects.create(user=ann, name="ci", digest="1", business=world.business("ads"))
    free = ApiToken.objects.create(user=ann, name="mine", digest="2")
    client = Client()
    client.force_login(world.user("lee", "ads", role=role))
    assert ("ci" in client.get("/account/").content.decode().split("tokens-of-businesses")[-1]) == (
        role == "lead"
    )
    assert client.post(f"/account/tokens/{bound.pk}/revoke/").status_code == status
    assert client.post(f"/account/tokens/{free.pk}/revoke/").status_code == 404
    assert ApiToken.objects.filter(pk=bound.pk).exists() == (status == 404)


def test_who_leaves_a_business_leaves_its_tokens_there(world: World, ann: User) -> None:
    secret = ApiToken.objects.issue(ann, "ci", business_id=world.business("ads").pk)
    own = ApiToken.objects.issue(ann, "mine")
    task = world.task("ads", "ann")
    Member.objects.get(user=ann, business__flag="ads").delete()
    assert call("get", "tasks/", secret).status_code == 401
    assert call("get", f"tasks/{task.pk}/", own).status_code == 404
    assert Task.objects.filter(pk=task.pk).exists()
