"""What a task printed, over the API."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.utils import timezone

from cluster import logs
from cluster.models import Instance
from jobs.api import logs as view
from jobs.models import Task
from tests.api.conftest import Caller, errors, run
from tests.world import World


@pytest.fixture
def task(ann: Caller, world: World) -> Task:
    """Return a task that runs for the second time; both attempts printed something."""
    task = world.task(state="running")
    first = run(task, "h1", 0, number=1, ended_at=timezone.now(), outcome="evicted")
    second = run(task, "h1", 1, number=2)
    logs.append(first.pk, 0, b"first\n")
    logs.append(second.pk, 0, b"0123456789\xff<script>\n")
    return task


def test_the_log_of_the_last_attempt_is_sent_as_it_is(ann: Caller, task: Task) -> None:
    response = ann.get(f"tasks/{task.pk}/log/")
    assert response.content == b"0123456789\xff<script>\n"
    assert response["X-Log-End"] == "20"
    assert (response["Content-Type"], response["X-Content-Type-Options"]) == (
        "text/plain; charset=utf-8",
        "nosniff",
    )


@pytest.mark.parametrize(
    ("query", "content", "end"),
    [
        ({"offset": 18}, b">\n", "20"),
        ({"offset": 20}, b"", "20"),
        ({"offset": 99}, b"", "99"),
        ({"attempt": 1}, b"first\n", "6"),
        ({"attempt": 1, "offset": 2, "rank": 0}, b"rst\n", "6"),
    ],
)
def test_the_log_goes_on_from_any_byte(
    ann: Caller, task: Task, query: dict[str, int], content: bytes, end: str
) -> None:
    response = ann.get(f"tasks/{task.pk}/log/", **query)
    assert (response.content, response["X-Log-End"]) == (content, end)


def test_the_log_may_be_a_file(ann: Caller, task: Task) -> None:
    response = ann.get(f"tasks/{task.pk}/log/", download=1)
    assert response["Content-Disposition"] == f'attachment; filename="task-{task.pk}.log"'


@pytest.mark.parametrize("query", [{"attempt": 3}, {"rank": 1}, {"attempt": 10**18}])
def test_an_attempt_or_member_that_is_not_there_is_not_found(
    ann: Caller, task: Task, query: dict[str, int]
) -> None:
    assert errors(ann.get(f"tasks/{task.pk}/log/", **query)) == {"": "not_found"}


@pytest.mark.parametrize("query", [{"offset": -1}, {"offset": "x"}, {"attempt": 1.5}, {"download": 2}])
def test_a_place_that_no_log_has_names_its_parameter(ann: Caller, task: Task, query: dict[str, Any]) -> None:
    response = ann.get(f"tasks/{task.pk}/log/", **query)
    assert (response.status_code, list(errors(response))) == (400, list(query))


def test_a_task_that_never_ran_has_an_empty_log(ann: Caller, world: World) -> None:
    response = ann.get(f"tasks/{world.task().pk}/log/")
    assert (response.status_code, response.content, response["X-Log-End"]) == (200, b"", "0")


def test_a_long_log_is_sent_piece_by_piece_and_whole(
    ann: Caller, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "AT_ONCE", 4)

    async def fetch() -> tuple[Any, bytes]:
        headers = {"Authorization": f"Token {ann.token}"}
        response: Any = await AsyncClient().get(f"/api/v1/tasks/{task.pk}/log/?offset=2", headers=headers)
        return response, b"".join([piece async for piece in response.streaming_content])

    response, content = async_to_sync(fetch)()
    assert content == b"23456789\xff<script>\n"
    assert (response["X-Log-End"], response["Content-Length"]) == ("20", "18")


def ranged(ann: Caller, task: Task, asked: str, query: str = "") -> Any:
    """GET the log with a Range header."""
    headers = {"Authorization": f"Token {ann.token}", "Range": asked}
    return ann.client.get(f"/api/v1/tasks/{task.pk}/log/{query}", headers=headers)


@pytest.mark.parametrize(
    ("asked", "content", "placed"),
    [
        ("bytes=0-9", b"0123456789", "bytes 0-9/20"),
        ("bytes=8-", b"89\xff<script>\n", "bytes 8-19/20"),
        ("bytes=18-99", b">\n", "bytes 18-19/20"),
        ("bytes=-3", b"t>\n", "bytes 17-19/20"),
        ("bytes=-99", b"0123456789\xff<script>\n", "bytes 0-19/20"),
        ("bytes=5-5", b"5", "bytes 5-5/20"),
    ],
)
def test_a_range_of_a_log_is_sent_alone(
    ann: Caller, task: Task, asked: str, content: bytes, placed: str
) -> None:
    response = ranged(ann, task, asked)
    assert (response.status_code, response.content) == (206, content)
    assert (response["Content-Range"], response["Accept-Ranges"]) == (placed, "bytes")


@pytest.mark.parametrize("asked", ["bytes=20-", "bytes=-0", "bytes=99-100"])
def test_a_range_behind_the_end_is_refused_with_the_length(ann: Caller, task: Task, asked: str) -> None:
    response = ranged(ann, task, asked)
    assert (response.status_code, response["Content-Range"], response.content) == (416, "bytes */20", b"")


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        ("lines=1-2", ""),
        ("bytes=1-2,4-5", ""),
        ("bytes=9-2", ""),
        ("bytes=-", ""),
        ("bytes=5-6", "?offset=0"),
    ],
)
def test_a_range_in_another_form_or_beside_an_offset_is_passed_over(
    ann: Caller, task: Task, asked: str, query: str
) -> None:
    response = ranged(ann, task, asked, query)
    assert (response.status_code, len(response.content)) == (200, 20)


def test_a_log_that_was_removed_says_when(ann: Caller, task: Task) -> None:
    at = timezone.now().replace(year=2026, month=5, day=4)
    Instance.objects.filter(gang=task.attempts.get(number=2).pk).update(log_removed_at=at)
    response = ann.get(f"tasks/{task.pk}/log/")
    assert (response.status_code, errors(response)) == (410, {"": "removed"})
    assert "2026-05-04" in response.json()["errors"][0]["message"]
    assert ann.get(f"tasks/{task.pk}/log/", attempt=1).content == b"first\n"
    hosts = ann.get(f"tasks/{task.pk}/").json()["attempts"][1]["hosts"]
    assert hosts[0]["log_removed_at"].startswith("2026-05-04")


def test_so_many_bytes_at_most_are_sent(ann: Caller, task: Task) -> None:
    response = ann.get(f"tasks/{task.pk}/log/", offset=2, limit=3)
    assert (response.content, response["X-Log-End"]) == (b"234", "20")
    assert ann.get(f"tasks/{task.pk}/log/", offset=20, limit=3).content == b""


def test_a_log_is_searched_without_being_sent(ann: Caller, task: Task) -> None:
    answer = ann.get(f"tasks/{task.pk}/log/search/", q="SCRIPT").json()
    assert answer == {"hits": [{"offset": 0, "line": "0123456789\ufffd<script>"}], "next": None}
    assert ann.get(f"tasks/{task.pk}/log/search/", q="first", attempt=1).json()["hits"][0]["offset"] == 0
    assert ann.get(f"tasks/{task.pk}/log/search/", q="first").json() == {"hits": [], "next": None}


@pytest.mark.parametrize("words", ["", "x" * 201])
def test_a_search_for_nothing_or_for_too_much_is_refused(ann: Caller, task: Task, words: str) -> None:
    response = ann.get(f"tasks/{task.pk}/log/search/", q=words)
    assert response.status_code == 400
    assert errors(response) == {"q": "length"}


def test_the_log_of_others_cannot_be_searched(outsider: Caller, task: Task) -> None:
    assert outsider.get(f"tasks/{task.pk}/log/search/", q="x").status_code == 404
