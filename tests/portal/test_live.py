"""The socket of a page: who may listen to what, and what it is told."""

import json
import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client

from cluster import hints, hub
from jobs import services
from jobs.models import Task
from jobs.portal import live
from jobs.portal.live import may_listen
from jobs.portal.routing import websocket_urlpatterns
from quotas.access import AnyUser
from quotas.models import Member
from tests.patience import WITHIN_S
from tests.portal.conftest import run
from tests.world import World


@pytest.fixture
def task(world: World, ann: Client) -> Task:
    return world.task()


@pytest.mark.parametrize(
    ("name", "sees"), [("ann", True), ("cid", True), ("root", True), ("oz", False), ("", False)]
)
def test_a_task_and_its_log_are_told_of_to_those_who_see_it(
    name: str, sees: bool, world: World, task: Task
) -> None:
    world.user("cid", "ads")
    world.user("oz", "speech")
    user: AnyUser = world.operator() if name == "root" else world.user(name) if name else AnonymousUser()
    attempt = run(task, world.host("h1"))
    assert may_listen(user, [f"task.{task.pk}"]) is sees
    assert may_listen(user, [f"log.{attempt.pk}"]) is sees
    assert may_listen(user, ["cards", "tasks", f"task.{task.pk}", f"log.{attempt.pk}"]) is sees


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [""],
        ["secrets"],
        ["host.1"],
        ["task."],
        ["task.x"],
        ["task.-1"],
        ["task.999999"],
        ["task." + "9" * 30],
        ["log.999999"],
        ["cards", "task.999999"],
        ["cards"] * 21,
    ],
)
def test_nobody_listens_to_what_is_none_of_the_pages(topics: list[str], world: World, task: Task) -> None:
    assert not may_listen(world.user("ann"), topics)


def test_that_somebody_has_another_task_is_told_to_him_alone(world: World, task: Task) -> None:
    ann, cid = world.user("ann"), world.user("cid", "ads")
    assert may_listen(ann, [f"mine.{ann.pk}", "cards", f"task.{task.pk}"])
    assert not may_listen(cid, [f"mine.{ann.pk}"])
    assert not may_listen(world.operator(), ["mine."])


def test_a_user_who_was_made_inactive_hears_nothing(world: World, task: Task) -> None:
    user = world.user("ann")
    user.is_active = False
    assert not may_listen(user, ["cards"])


class Socket:
    """A socket as the server sees it, opened by `user`; address and session are somebody else's to check."""

    def __init__(self, user: AnyUser, query: str) -> None:
        scope = {"type": "websocket", "path": "/ws/live/", "query_string": query.encode(), "user": user}
        server = URLRouter(websocket_urlpatterns)
        self._page: Any = ApplicationCommunicator(server, scope)  # type: ignore[no-untyped-call]  # has no types

    async def open(self) -> bool:
        """Say whether the socket was accepted."""
        await self._page.send_input({"type": "websocket.connect"})
        answer = await self._page.receive_output(WITHIN_S)
        return bool(answer["type"] == "websocket.accept")

    async def told(self) -> dict[str, Any]:
        """Return the next message."""
        return dict(json.loads((await self._page.receive_output(WITHIN_S))["text"]))

    async def ends(self) -> None:
        """Wait until the server closes the socket."""
        while (await self._page.receive_output(WITHIN_S))["type"] != "websocket.close":
            pass

    async def leave(self) -> None:
        """Close the socket."""
        await self._page.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._page.wait(WITHIN_S)


@pytest.mark.django_db(transaction=True)
def test_a_socket_is_told_which_topics_changed_and_nothing_else(valkey: str) -> None:
    world = World()
    user, task = world.user("ann", "ads"), world.task()
    wanted = {"cards", f"task.{task.pk}"}

    async def listen() -> None:
        page = Socket(user, f"topic=cards&topic=task.{task.pk}")
        assert await page.open()
        assert set((await page.told())["changed"]) == wanted  # what changed before the socket: look once
        await sync_to_async(hints.publish)("cards", "tasks", f"task.{task.pk}", "task.999")
        told: set[str] = set()
        while told != wanted:
            message = await page.told()
            assert set(message) == {"changed", "spread_ms"}
            told |= set(message["changed"])
        await page.leave()

    async_to_sync(listen)()


@pytest.mark.django_db(transaction=True)
def test_the_first_page_hears_of_each_of_its_tasks_and_of_a_new_one(valkey: str) -> None:
    world = World()
    world.business("ads", P40=16)
    world.host("h1")
    user, task = world.user("ann", "ads"), world.task()
    browser = Client()
    browser.force_login(user)
    page = browser.get("/").content.decode()
    topics = re.findall(r'data-topic="([^"]+)"', page)
    assert set(topics) == {"cards", f"mine.{user.pk}", f"task.{task.pk}"}
    document = {"business_flag": "ads", "task_flag": "t", "start_cmd": "true", "host_gpu_num": 1}

    async def listen() -> None:
        async with hub.listen(*topics) as listener:
            await listener.changed(WITHIN_S)  # subscribed
            await sync_to_async(services.submit)(user, document)
            assert await listener.changed(WITHIN_S) == {f"mine.{user.pk}"}
            await sync_to_async(services.hold)(task, user)
            assert await listener.changed(WITHIN_S) == {f"task.{task.pk}"}

    async_to_sync(listen)()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["oz", ""])
def test_a_socket_for_a_task_of_others_is_refused(name: str, world: World, task: Task) -> None:
    user: AnyUser = world.user(name, "speech") if name else AnonymousUser()
    assert not async_to_sync(Socket(user, f"topic=task.{task.pk}").open)()


@pytest.mark.django_db(transaction=True)
def test_a_socket_without_news_beats(valkey: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user = World().user("ann")

    async def listen() -> None:
        page = Socket(user, "topic=cards")
        assert await page.open()
        assert (await page.told())["changed"] == ["cards"]
        assert (await page.told())["changed"] == ["cards"], (
            "there may have been news before it was subscribed"
        )
        monkeypatch.setattr(live, "BEAT_S", 0.05)
        assert {"changed": [], "spread_ms": {}} in [await page.told() for _ in range(3)]
        await page.leave()

    async_to_sync(listen)()


@pytest.mark.django_db(transaction=True)
def test_while_no_news_come_in_a_page_is_sent_to_look_at_all_of_its_own_again_and_again(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a page with a socket would show what was, as live, until its next poll a minute later."""
    monkeypatch.setattr(live, "DEAF_S", 0.05)
    user, wanted = world.user("ann"), ["cards", f"task.{task.pk}"]

    async def listen() -> None:
        page = Socket(user, f"topic=cards&topic=task.{task.pk}")
        assert await page.open()
        assert [(await page.told())["changed"] for _ in range(3)] == [wanted] * 3
        await page.leave()

    async_to_sync(listen)()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["left the business", "was put out"])
def test_who_may_see_a_task_no_more_is_told_no_more(
    world: World, task: Task, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "DEAF_S", 0.05)
    monkeypatch.setattr(live, "RECHECK_S", 0.2)
    user = world.user("ann")

    async def listen() -> None:
        page = Socket(user, f"topic=task.{task.pk}")
        assert await page.open()
        await page.told()
        if how == "was put out":
            await sync_to_async(User.objects.filter(pk=user.pk).update)(is_active=False)
        else:
            await sync_to_async(Member.objects.filter(user=user).delete)()
        await page.ends()

    async_to_sync(listen)()


@pytest.mark.django_db(transaction=True)
def test_of_many_pages_each_is_told_to_wait_a_while_before_it_asks(
    world: World, task: Task, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "SPREAD_MS_EACH", 100)
    user = world.user("ann")

    async def listen() -> None:
        pages = [Socket(user, f"topic=tasks&topic=task.{task.pk}") for _ in range(3)]
        for page in pages:
            assert await page.open()
        for page in pages:
            await page.told()
        await sync_to_async(hints.publish)("tasks")
        for page in pages:
            spread_ms = 0
            while spread_ms != 300:  # less while not all of them were open
                spread_ms = (await page.told())["spread_ms"].get("tasks", 0)
        for page in pages:
            await page.leave()

    async_to_sync(listen)()


def test_pages_never_wait_longer_than_people_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "listeners", lambda topics: 1_000_000_000)
    assert json.loads(live.message({"tasks"}))["spread_ms"] == {"tasks": live.SPREAD_MS_MOST}
    assert json.loads(live.message(set())) == {"changed": [], "spread_ms": {}}


def test_a_thousand_pages_ask_within_half_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "listeners", lambda topics: 1000)
    assert json.loads(live.message({"tasks", "cards"}))["spread_ms"] == {"cards": 400, "tasks": 400}
