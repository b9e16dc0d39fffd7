"""Whatever goes wrong is answered in one form."""

from unittest.mock import patch

import pytest
from django.utils import translation
from pytest_django import Settings
from rest_framework.exceptions import Throttled

from jobs.models import Task
from tests.api.conftest import Caller, doc, errors


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "{'a': 1}",
        '{"a": NaN}',
        "\xff".encode("latin-1"),
        "[" * 50_000,
        '{"a": ' + "9" * 5000 + "}",
        "nul",
    ],
    ids=["open", "quotes", "nan", "bytes", "deep", "digits", "word"],
)
def test_a_body_that_is_no_json_is_refused(ann: Caller, body: str | bytes) -> None:
    response = ann.client.post(
        "/api/v1/tasks/", body, "application/json", headers={"Authorization": f"Token {ann.token}"}
    )
    assert (response.status_code, errors(response)) == (400, {"": "malformed"})


@pytest.mark.parametrize(
    "body", [[], "text", 5, None, True, {"start_cmd": "\ud800"}, {"\ud800": 1}, {"a\x00": 1}]
)
def test_json_that_is_no_document_is_refused(ann: Caller, body: object) -> None:
    response = ann.post("tasks/", body)
    assert response.status_code == 400
    assert errors(response)
    assert not Task.objects.exists()


def test_all_faults_come_together(ann: Caller) -> None:
    response = ann.post(
        "tasks/", {"business_flag": "nope", "host_num": "2", "GPUname": "P40", "notify": "me"}
    )
    assert response.status_code == 400
    assert errors(response) == {
        "GPUname": "unknown",
        "host_num": "type",
        "notify": "unsupported",
        "start_cmd": "required",
        "business_flag": "unknown",
    }


def test_a_body_of_another_kind_is_refused(ann: Caller) -> None:
    response = ann.client.post("/api/v1/tasks/", {"a": 1}, headers={"Authorization": f"Token {ann.token}"})
    assert (response.status_code, errors(response)) == (415, {"": "unsupported_media_type"})


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            ("“Authorization: Token …”", "“Content-Type: application/json”", "Quotes, commas and brackets"),
        ),
        ("zh-hans", ("请在请求头", "请发送 JSON", "最常见的原因是引号")),
    ],
)
def test_a_refusal_before_the_document_is_read_says_what_would_do(
    ann: Caller, language: str, words: tuple[str, ...]
) -> None:
    headers = {"Authorization": f"Token {ann.token}", "Accept-Language": language}
    answers = [
        ann.client.get("/api/v1/tasks/", headers={"Accept-Language": language}),
        ann.client.post("/api/v1/tasks/", {"a": 1}, headers=headers),
        ann.client.post("/api/v1/tasks/", '{"a": 1,}', "application/json", headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [401, 415, 400]
    for answer, way in zip(answers, words, strict=True):
        assert way in answer.json()["errors"][0]["message"]
    translation.deactivate()


def test_a_huge_body_is_refused(ann: Caller) -> None:
    response = ann.post("tasks/", doc(exit_cmd="x" * 300_000))
    assert (response.status_code, errors(response)) == (413, {"": "too_large"})


@pytest.mark.parametrize(
    "path", ["", "nowhere/", "tasks", "tasks/1/fly/", "tasks/abc/", f"tasks/{10**30}/", "tasks/1/"]
)
def test_what_is_not_there_is_answered_in_the_same_form(ann: Caller, path: str) -> None:
    response = ann.get(path)
    assert (response.status_code, errors(response)) == (404, {"": "not_found"})


def test_a_wrong_method_is_answered_in_the_same_form(ann: Caller) -> None:
    response = ann.get("tasks/preview/")
    assert (response.status_code, errors(response)) == (405, {"": "method_not_allowed"})
    assert "POST" in response["Allow"]


def test_too_many_calls_are_told_when_to_come_back(ann: Caller) -> None:
    with patch("jobs.api.tasks.Tasks.check_throttles", side_effect=Throttled(wait=7)):
        response = ann.get("tasks/")
    assert (response.status_code, errors(response)) == (429, {"": "throttled"})
    assert response["Retry-After"] == "7"


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "501"},
        {"cursor": "x"},
        {"cursor": "9" * 30},
        {"state": "flying"},
        {"class": "low"},
    ],
)
def test_a_query_out_of_range_names_its_parameter(ann: Caller, query: dict[str, str]) -> None:
    response = ann.get("tasks/", **query)
    assert response.status_code == 400
    assert list(errors(response)) == list(query)


@pytest.mark.parametrize("path", ["tasks/", "nowhere/"])
def test_a_name_that_is_not_ours_is_refused_in_the_one_form(
    path: str, ann: Caller, settings: Settings
) -> None:
    settings.ALLOWED_HOSTS = ["taiji.example.org"]
    headers = {"Authorization": f"Token {ann.token}", "Host": "evil.example.org"}
    answer = ann.client.get(f"/api/v1/{path}", headers=headers)
    assert (answer.status_code, errors(answer)) == (400, {"Host": "host"})
    assert "evil.example.org" in answer.json()["errors"][0]["message"]
    strange = ann.client.get(f"/api/v1/{path}", headers=headers | {"Host": "<script>"})
    assert "script" not in strange.content.decode()
    page = ann.client.get("/login/", headers={"Host": "evil.example.org"})
    assert (page.status_code, page["Content-Type"].partition(";")[0]) == (400, "text/html")


def test_an_address_beside_the_api_is_told_where_it_begins(ann: Caller) -> None:
    answer = ann.client.get("/api/v2/tasks/")
    assert (answer.status_code, errors(answer)) == (404, {"": "not_found"})
    assert "/api/v1/" in answer.json()["errors"][0]["message"]
    assert ann.client.get("/nowhere/")["Content-Type"].startswith("text/html")
