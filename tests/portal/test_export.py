"""The filtered list as CSV."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from jobs import task_file
from jobs.models import Task
from tests.portal.conftest import run
from tests.world import World

pytestmark = pytest.mark.usefixtures("ann")


def download(user: User, query: str = "", language: str = "en") -> tuple[Any, bytes]:
    """Return the answer and all its bytes, read as a server sends them."""

    async def ask() -> tuple[Any, bytes]:
        browser = AsyncClient()
        await browser.aforce_login(user)
        answer: Any = await browser.get(f"/tasks/csv/{query}", headers={"accept-language": language})
        if not answer.streaming:
            return answer, answer.content
        return answer, b"".join([part async for part in answer.streaming_content])

    return async_to_sync(ask)()  # in this thread, whose transaction holds the rows


def table(user: User, query: str = "", language: str = "en") -> list[dict[str, str]]:
    """Return the rows by their heads."""
    return list(csv.DictReader(io.StringIO(download(user, query, language)[1].decode())))


def test_a_row_says_what_the_api_says_under_the_same_names(world: World) -> None:
    numbers = {"per_host": 8, "types": "P40", "free": 14, "largest": 6}
    task = world.task(
        task_flag="训练, \"x\"", hosts=2, cards=8, gpu_types=["P40", "M40"], region=world.region(),
        reason_code="no_cards", reason_args=numbers,
    )  # fmt: skip
    Task.objects.update(submitted_at=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    row = table(world.user("ann"))[0]
    assert list(row) == list(task_file.HEADS)
    assert row | {"queued_at": ""} == {
        "id": str(task.pk), "task_flag": "训练, \"x\"", "business": "ads", "user": "ann", "state": "queued",
        "class": "high", "host_num": "2", "host_gpu_num": "8", "gpu_types": "P40,M40", "region": "SZ",
        "priority": "medium", "submitted_at": "2030-01-02T03:04:05+00:00", "queued_at": "", "ended_at": "",
        "reason_code": "no_cards",
        "reason": "asks 8 P40 on one host; 14 are free, the largest host has 6",
    }  # fmt: skip


def test_the_file_holds_what_the_filter_finds_and_the_user_may_see(world: World) -> None:
    world.task(task_flag="one", state="failed", ended_at=datetime.now(UTC))
    world.task(task_flag="two")
    world.task("speech", "oz", task_flag="secret")
    ann = world.user("ann")
    assert [row["task_flag"] for row in table(ann)] == ["two", "one"]
    assert [row["task_flag"] for row in table(ann, "?state=over")] == ["one"]
    assert table(ann, "?q=secret") == []


def test_a_filter_that_means_nothing_gives_no_file(world: World) -> None:
    answer, content = download(world.user("ann"), "?state=odd")
    assert answer.status_code == 400
    assert content.startswith(b"State: Write some of")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\tx", "＝1", "=HYPERLINK(1)"])
def test_a_text_that_begins_like_a_formula_is_none(name: str, world: World) -> None:
    world.task(task_flag=name)
    assert table(world.user("ann"))[0]["task_flag"] == f"'{name}"


def test_the_file_for_excel_begins_with_the_mark_of_utf_8_and_the_other_does_not(world: World) -> None:
    ann = world.user("ann")
    assert download(ann, "?excel=1")[1].startswith(b"\xef\xbb\xbfid,")
    answer, content = download(ann)
    assert content.startswith(b"id,")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"].startswith('attachment; filename="tasks-')


def test_reasons_are_in_the_language_of_the_reader(world: World) -> None:
    task = world.task(state="failed")
    run(task, world.host("h1"), outcome="failed", outcome_code="time_limit", outcome_args={"limit_s": 60})
    ann = world.user("ann")
    english, chinese = table(ann)[0], table(ann, language="zh-hans")[0]
    assert english["reason_code"] == chinese["reason_code"] == "time_limit"
    assert english["reason"] == "Its time limit of 60 s is over"
    assert chinese["reason"] != english["reason"]


def test_no_secret_and_no_config_is_in_the_file(world: World) -> None:
    world.task(secrets="sealed-box", config={"start_cmd": "run-the-thing"})
    content = download(world.user("ann"))[1]
    assert b"sealed-box" not in content
    assert b"run-the-thing" not in content


def test_many_tasks_are_read_piece_by_piece(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_file, "CHUNK", 2)
    read: list[int] = []
    whole = task_file._cells

    def cells(ids: list[int]) -> Any:
        read.append(len(ids))
        return whole(ids)

    monkeypatch.setattr(task_file, "_cells", cells)
    names = [str(number) for number in range(5)]
    for name in names:
        world.task(task_flag=name)
    assert [row["task_flag"] for row in table(world.user("ann"))] == names[::-1]
    assert read == [2, 2, 1]


def test_whoever_is_not_logged_in_gets_no_file(client: Client) -> None:
    assert client.get("/tasks/csv/").status_code == 302
