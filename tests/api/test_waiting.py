"""Calls that wait for what comes next, through the real application: told at once, held by no thread."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.test import Client

from cluster import hints, hub, logs
from jobs import lifecycle
from jobs.api import waiting
from jobs.models import Attempt, Task
from jobs.states import State
from taiji_site.asgi import application
from tests.api.conftest import Caller, run
from tests.world import World

SOON_S = 15.0  # less than the 20 that are asked for
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]


@dataclass(frozen=True)
class Answer:
    """What came back, and after how many seconds."""

    status: int
    body: bytes
    headers: dict[bytes, bytes]
    took_s: float

    def json(self) -> Any:
        return json.loads(self.body)


async def ask(caller: Caller | None, path: str, query: str, *, leave_after_s: float | None = None) -> Answer:
    """GET a path below /api/v1/; hang up after a while."""
    sent: list[Any] = []
    told = False

    async def receive() -> Any:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.sleep(3600 if leave_after_s is None else leave_after_s)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"testserver")]
    headers += [(b"authorization", f"Token {caller.token}".encode())] if caller else []
    scope = {
        **{"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "root_path": ""},
        **{"path": f"/api/v1/{path}", "raw_path": b"", "query_string": query.encode(), "headers": headers},
        **{"client": ("127.0.0.1", 1), "server": ("testserver", 80), "asgi": {"version": "3.0"}},
    }
    began = time.monotonic()
    await application(scope, receive, send)
    if not sent:
        return Answer(0, b"", {}, time.monotonic() - began)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], body, dict(sent[0]["headers"]), time.monotonic() - began)


def tell(story: Callable[[], Awaitable[Any]]) -> Any:
    """Run a story once news are heard."""

    async def running() -> Any:
        async with hub.listen("tasks") as listener:
            await listener.changed(60)  # the subscription is there
            return await story()

    return async_to_sync(running)()


async def later(seconds: float, deed: Callable[..., Any], *args: Any) -> None:
    await asyncio.sleep(seconds)
    await sync_to_async(deed)(*args)


def hold(task: Task) -> None:
    lifecycle.move([task.pk], State.QUEUED, State.HELD, code="hold")


def test_an_event_that_comes_meanwhile_is_told_at_once(ann: Caller, world: World) -> None:
    task = world.task()

    async def story() -> Answer:
        answer, _ = await asyncio.gather(
            ask(ann, f"tasks/{task.pk}/events/", "wait=20"), later(0.5, hold, task)
        )
        return answer

    answer: Answer = tell(story)
    assert [event["code"] for event in answer.json()["results"]] == ["hold"]
    assert 0.4 < answer.took_s < SOON_S


def test_what_is_there_already_is_waited_for_by_nobody(ann: Caller, world: World) -> None:
    task = world.task()
    hold(task)
    answer: Answer = tell(lambda: ask(ann, f"tasks/{task.pk}/events/", "wait=20"))
    assert (len(answer.json()["results"]), answer.took_s < SOON_S) == (1, True)


def test_nothing_comes_and_the_time_is_over(ann: Caller, world: World) -> None:
    pk = world.task().pk
    answer: Answer = tell(lambda: ask(ann, f"tasks/{pk}/events/", "wait=1"))
    assert (answer.status, answer.json()["results"]) == (200, [])
    assert 0.9 < answer.took_s < SOON_S


def test_a_task_that_is_over_has_no_more_to_wait_for(ann: Caller, world: World) -> None:
    task = world.task(state="failed")
    answer: Answer = tell(lambda: ask(ann, f"tasks/{task.pk}/events/", "wait=20"))
    assert (answer.json()["over"], answer.took_s < SOON_S) == (True, True)


def test_bytes_that_come_meanwhile_are_sent(ann: Caller, world: World) -> None:
    task = world.task(state="running")
    member = run(task, "h1", 0)
    logs.append(member.pk, 0, b"one\n")

    def prints() -> None:
        logs.append(member.pk, 4, b"two\n")
        hints.publish(f"log.{member.gang}")

    async def story() -> Answer:
        answer, _ = await asyncio.gather(
            ask(ann, f"tasks/{task.pk}/log/", "offset=4&wait=20"), later(0.5, prints)
        )
        return answer

    answer: Answer = tell(story)
    assert (answer.body, answer.headers[b"x-log-end"], 0.4 < answer.took_s < SOON_S) == (b"two\n", b"8", True)


def test_the_log_of_an_attempt_that_ended_is_not_waited_for(ann: Caller, world: World) -> None:
    task = world.task(state="running")
    member = run(task, "h1", 0)
    Attempt.objects.filter(pk=member.gang).update(ended_at=task.submitted_at)
    answer: Answer = tell(lambda: ask(ann, f"tasks/{task.pk}/log/", "wait=20"))
    assert (answer.status, answer.body, answer.took_s < SOON_S) == (200, b"", True)


def test_many_wait_without_a_thread_of_their_own(ann: Caller, world: World) -> None:
    task = world.task()

    async def story() -> tuple[int, list[Answer]]:
        before = threading.active_count()  # those of other tests among them
        asking = [asyncio.create_task(ask(ann, f"tasks/{task.pk}/events/", "wait=60")) for _ in range(50)]
        while waiting._held.total() < 50:
            await asyncio.sleep(0.05)
        threads = threading.active_count() - before
        await sync_to_async(hold)(task)
        return threads, await asyncio.gather(*asking)

    threads, answers = tell(story)
    assert threads < 20
    assert {len(answer.json()["results"]) for answer in answers} == {1}
    assert not waiting._held


def test_who_hangs_up_is_waited_for_no_longer(ann: Caller, world: World) -> None:
    pk = world.task().pk
    answer: Answer = tell(lambda: ask(ann, f"tasks/{pk}/events/", "wait=60", leave_after_s=0.5))
    assert (answer.status, answer.took_s < SOON_S, waiting._held.total()) == (0, True, 0)


def test_one_of_too_many_is_told_to_come_back(
    ann: Caller, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_OF_ONE", 0)
    pk = world.task().pk
    answer: Answer = tell(lambda: ask(ann, f"tasks/{pk}/events/", "wait=20"))
    assert (answer.status, answer.headers[b"retry-after"]) == (429, b"5")


def test_nobody_learns_by_waiting_that_there_is_a_task(ann: Caller, outsider: Caller, world: World) -> None:
    task = world.task()
    path = f"tasks/{task.pk}/events/"
    for caller, status in ((outsider, 404), (None, 401)):
        answer: Answer = tell(partial(ask, caller, path, "wait=20"))
        assert (answer.status, answer.took_s < SOON_S) == (status, True)


def test_who_may_see_it_no_longer_is_let_go(ann: Caller, world: World) -> None:
    task = world.task()

    def leaves() -> None:
        ann.user.member_set.all().delete()
        hints.publish(f"task.{task.pk}")

    async def story() -> Answer:
        answer, _ = await asyncio.gather(ask(ann, f"tasks/{task.pk}/events/", "wait=20"), later(0.3, leaves))
        return answer

    assert tell(story).status == 404


@pytest.mark.parametrize("query", ["wait=61", "wait=x", "wait=-1", "wait=5&after=x"])
def test_a_wait_that_is_none_is_refused(ann: Caller, world: World, query: str) -> None:
    pk = world.task().pk
    answer: Answer = tell(lambda: ask(ann, f"tasks/{pk}/events/", query))
    assert (answer.status, answer.took_s < SOON_S) == (400, True)


def test_without_news_a_look_is_taken_now_and_then(
    ann: Caller, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.2)
    task = world.task()

    def quietly() -> None:
        Task.objects.filter(pk=task.pk).update(state="stopped")

    async def story() -> Answer:
        answer, _ = await asyncio.gather(ask(ann, f"tasks/{task.pk}/events/", "wait=20"), later(0.3, quietly))
        return answer

    answer: Answer = tell(story)
    assert (answer.json()["over"], answer.took_s < SOON_S) == (True, True)


def test_a_session_waits_as_a_token_does(ann: Caller, world: World) -> None:
    task = world.task()
    browser = Client()
    browser.force_login(ann.user)
    cookie = browser.cookies["sessionid"].value
    scope = {
        "path": f"/api/v1/tasks/{task.pk}/events/",
        "headers": [(b"cookie", f"sessionid={cookie}".encode())],
        "method": "GET",
        "query_string": b"",
        "type": "http",
    }
    asked = waiting.Asked(task=task.pk, kind="events", since=0, attempt=0, rank=0)
    look = waiting._look(scope, asked)
    assert look is not None
    assert (look.user, look.there) == (ann.user.pk, False)
