"""Who may call the API, and with what."""

import json
from typing import Any

import pytest
from django.test import Client

from jobs.models import Task
from tests.api.conftest import Caller, doc, errors
from tests.world import World


def _post(client: Client, path: str, body: Any, **headers: str) -> Any:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    return client.post(path, text, content_type="application/json", headers=headers)


def test_nobody_gets_in_without_a_token(ann: Caller) -> None:
    response = Client().get("/api/v1/tasks/")
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Token"
    assert errors(response) == {"": "not_authenticated"}


@pytest.mark.parametrize("header", ["Token wrong", "token wrong", "Token a b", "Token \x7f"])
def test_a_wrong_token_is_refused(ann: Caller, header: str) -> None:
    response = Client().get("/api/v1/tasks/", headers={"Authorization": header})
    assert (response.status_code, errors(response)) == (401, {"": "authentication_failed"})


@pytest.mark.parametrize("header", ["", "Token", "Token ", "Basic YTpi", "Bearer x"])
def test_no_token_in_the_header_counts_as_none(ann: Caller, header: str) -> None:
    response = Client().get("/api/v1/tasks/", headers={"Authorization": header})
    assert (response.status_code, errors(response)) == (401, {"": "not_authenticated"})


def test_the_token_may_stand_in_the_body_and_is_stored_nowhere(ann: Caller) -> None:
    response = _post(Client(), "/api/v1/tasks/", doc(Token=ann.token))
    assert response.status_code == 201, response.content
    task = Task.objects.get()
    assert task.user == ann.user
    assert ann.token not in repr(task.__dict__) + response.content.decode()


def test_the_token_in_the_body_serves_every_verb(ann: Caller, world: World) -> None:
    task = world.task()
    assert _post(Client(), f"/api/v1/tasks/{task.pk}/hold/", {"Token": ann.token}).status_code == 200


@pytest.mark.parametrize("token", ["wrong", "\ud800", "a\x00b"])
def test_a_wrong_token_in_the_body_is_refused_and_not_echoed(ann: Caller, token: str) -> None:
    response = _post(Client(), "/api/v1/tasks/", doc(Token=token))
    assert response.status_code == 401
    assert token not in response.content.decode()


def test_a_user_who_was_shut_out_keeps_no_way_in(ann: Caller) -> None:
    ann.user.is_active = False
    ann.user.save()
    assert ann.get("tasks/").status_code == 401


def test_a_session_reads_freely_but_needs_the_csrf_token_to_write(ann: Caller) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann.user)
    assert client.get("/api/v1/tasks/").status_code == 200
    response = _post(client, "/api/v1/tasks/", doc())
    assert (response.status_code, errors(response)) == (403, {"": "permission_denied"})
    assert "X-CSRFToken" in response.json()["errors"][0]["message"]
    chinese = _post(client, "/api/v1/tasks/", doc(), **{"Accept-Language": "zh-hans"}).json()
    assert chinese["errors"][0]["message"].startswith("要写入的页面请在请求头 X-CSRFToken")
    assert not Task.objects.exists()


def test_a_session_with_the_csrf_token_may_write(ann: Caller) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann.user)
    client.cookies["csrftoken"] = "a" * 32
    assert _post(client, "/api/v1/tasks/", doc(), **{"X-CSRFToken": "a" * 32}).status_code == 201


def test_a_token_needs_no_csrf_token(ann: Caller) -> None:
    client = Client(enforce_csrf_checks=True)
    assert _post(client, "/api/v1/tasks/", doc(), Authorization=f"Token {ann.token}").status_code == 201
