"""Files over the API: what the list and a business's page offer, for scripts."""

import csv
import io
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.utils import timezone

from jobs import task_file
from quotas.models import UsageRow
from tests.api.conftest import Caller, errors
from tests.world import World


def download(caller: Caller, path: str, **headers: str) -> tuple[Any, bytes]:
    """Return the answer and all its bytes, read as a server sends them."""

    async def ask() -> tuple[Any, bytes]:
        named = {"authorization": f"Token {caller.token}", **headers}
        answer: Any = await AsyncClient().get(f"/api/v1/{path}", headers=named)
        if not answer.streaming:
            return answer, answer.content
        return answer, b"".join([part async for part in answer.streaming_content])

    return async_to_sync(ask)()  # in this thread, whose transaction holds the rows


def table(caller: Caller, path: str) -> list[dict[str, str]]:
    """Return the rows by their heads."""
    return list(csv.DictReader(io.StringIO(download(caller, path)[1].decode())))


def test_all_tasks_that_match_come_as_a_file_and_none_of_others(
    ann: Caller, outsider: Caller, world: World
) -> None:
    world.task(task_flag="=1+1", state="failed")
    world.task(task_flag="second")
    assert [row["task_flag"] for row in table(ann, "tasks/csv/?sort=oldest")] == ["'=1+1", "second"]
    assert [row["task_flag"] for row in table(ann, "tasks/csv/?state=queued")] == ["second"]
    assert list(table(ann, "tasks/csv/")[0]) == list(task_file.HEADS)
    assert table(outsider, "tasks/csv/") == []


def test_a_caller_who_wants_csv_gets_it_and_refusals_in_the_one_form(ann: Caller) -> None:
    answer, data = download(ann, "tasks/csv/?excel=1", accept="text/csv")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert "attachment" in answer["Content-Disposition"]
    assert data.startswith("\ufeff".encode())
    refused, _data = download(ann, "tasks/csv/?state=lost", accept="text/csv")
    assert (refused.status_code, errors(refused)) == (400, {"state": "choice"})
    assert errors(download(ann, "tasks/csv/?limit=5")[0]) == {"limit": "unknown"}, "a file is whole"


def test_what_a_business_used_names_others_only_for_those_who_oversee_it(
    ann: Caller, outsider: Caller, world: World
) -> None:
    ads, now = world.business("ads"), timezone.now()
    for number, name in enumerate(("ann", "bob")):
        UsageRow.objects.create(
            **{"attempt": number, "task": number, "business": ads, "user": world.user(name, "ads")},
            **{"gpu_type": world.gpu_type(), "task_class": "high", "cards": 2, "seconds": 1800.0},
            **{"started_at": now - timedelta(hours=1), "ended_at": now, "outcome": "succeeded"},
        )
    path = f"businesses/{ads.pk}/usage/csv/"
    assert [(row["user"], row["card_hours"]) for row in table(ann, path)] == [("ann", "1.0"), ("", "1.0")]
    lead = Caller(world.user("lea", "ads", role="lead"))
    assert [row["user"] for row in table(lead, f"{path}?days=1")] == ["ann", "bob"]
    assert errors(download(ann, f"{path}?days=0")[0]) == {"days": "range"}
    assert download(outsider, path)[0].status_code == 404
