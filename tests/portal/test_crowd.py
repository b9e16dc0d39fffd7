"""The short way to the free cards: who is answered on it, with what, and until when."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from cluster import hints, hub
from cluster.inventory import FreeCards
from cluster.models import Host
from jobs.portal import crowd, free_cards
from jobs.portal.readers import Reader, reader_of, readers
from quotas.models import Member, Quota
from tests.world import World

LEFT = re.compile(r"(\d+) of (\d+) left")
DJANGO = "Django's way"


class Short:
    """The short way before a Django that only says that it was asked."""

    def __init__(self) -> None:
        self._application = crowd.before(self._django)

    async def _django(self, _scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": DJANGO.encode()})

    async def get(self, session: str, *, language: str = "en", **changes: Any) -> str:
        """Return what a page with this session is answered."""
        cookies = f"sessionid={session}; django_language={language}"
        headers = [(b"cookie", cookies.encode()), (b"hx-request", b"true")]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "query_string": b"part=cards",
            "headers": headers,
        }
        parts: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            parts.append(message)

        async def receive() -> dict[str, Any]:
            raise AssertionError("nothing is read")

        await self._application(scope | changes, receive, send)
        self.headers = {name.decode(): value.decode() for name, value in parts[0]["headers"]}
        return " ".join(b"".join(part.get("body", b"") for part in parts[1:]).decode().split())


def told(reader: Reader, session: str = "s") -> Callable[[Callable[[Short], Awaitable[None]]], None]:
    """Run what is given while a page of the session has its socket and news are heard."""

    def run(deed: Callable[[Short], Awaitable[None]]) -> None:
        async def go() -> None:
            async with hub.listen("cards") as listener:
                await listener.changed(60)  # subscribed
                with readers.present(session, reader):
                    await deed(Short())

        async_to_sync(go)()

    return run


@pytest.fixture
def ann(valkey: str) -> User:
    world = World()
    world.business("ads", P40=16)
    world.host("h1")
    return world.user("ann", "ads")


@pytest.mark.django_db(transaction=True)
def test_what_it_answers_is_what_django_answers(ann: User) -> None:
    browser = Client()
    browser.force_login(ann)
    browser.post("/i18n/setlang/", {"language": "zh-hans"})
    found = browser.get("/?part=cards", headers={"HX-Request": "true"})

    async def deed(short: Short) -> None:
        shown = await short.get("s", language="zh-hans")
        times = re.compile(r"\d\d:\d\d:\d\d|data-since=\"\d+\"| ")
        assert times.sub("", shown) == times.sub("", " ".join(found.content.decode().split()))
        assert short.headers["cache-control"] == found["Cache-Control"]
        assert short.headers["content-language"] == "zh-hans"

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_each_reader_sees_his_own_quotas_and_nobody_elses(ann: User) -> None:
    world = World()
    world.business("speech", P40=5)
    oz, root = world.user("oz", "speech"), world.operator()
    found = {name: reader_of(user) for name, user in (("ann", ann), ("oz", oz), ("root", root))}

    async def deed(short: Short) -> None:
        with readers.present("ann", found["ann"]), readers.present("root", found["root"]):
            mine, theirs, all_ = [await short.get(name) for name in ("ann", "s", "root")]
        assert (LEFT.findall(mine), LEFT.findall(theirs), LEFT.findall(all_)) == (
            [("16", "16")],
            [("5", "5")],
            [],
        )
        assert "speech" not in mine
        assert "ads" not in theirs

    told(found["oz"])(deed)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "changes",
    [
        {"method": "POST"},
        {"path": "/tasks/"},
        {"query_string": b"part=mine"},
        {"headers": [(b"cookie", b"sessionid=s")]},
        {"headers": [(b"cookie", b"sessionid=other"), (b"hx-request", b"true")]},
        {"headers": [(b"cookie", b"sessionid="), (b"hx-request", b"true")]},
        {"headers": [(b"hx-request", b"true")]},
    ],
    ids=["post", "page", "part", "no htmx", "unknown", "empty", "nobody"],
)
def test_everything_else_goes_djangos_way(ann: User, changes: dict[str, Any]) -> None:
    async def deed(short: Short) -> None:
        assert await short.get("s", **changes) == DJANGO

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_a_session_is_answered_while_one_of_its_sockets_is_open_and_no_longer(ann: User) -> None:
    reader = reader_of(ann)

    async def deed(short: Short) -> None:
        with readers.present("two", reader):
            with readers.present("two", reader):
                assert await short.get("two") != DJANGO
            assert await short.get("two") != DJANGO
        assert await short.get("two") == DJANGO

    told(reader)(deed)


@pytest.mark.django_db(transaction=True)
def test_a_socket_without_a_session_lets_nobody_in(ann: User) -> None:
    reader = reader_of(ann)

    async def deed(short: Short) -> None:
        with readers.present(None, reader):
            assert await short.get("") == await short.get("None") == DJANGO

    told(reader)(deed)


@pytest.mark.django_db(transaction=True)
def test_a_page_without_a_socket_is_known_by_its_session_and_gets_the_same(ann: User) -> None:
    browser = Client()
    browser.force_login(ann)
    session = browser.cookies["sessionid"].value

    async def deed(short: Short) -> None:
        assert LEFT.findall(await short.get(session)) == [("16", "16")]
        assert await short.get(session) == await short.get("s")
        await User.objects.aupdate(is_active=False)
        assert await short.get(session) == DJANGO

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_in_a_storm_of_changes_it_is_made_a_few_times_a_second(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    now = free_cards.now

    def counted() -> list[FreeCards]:
        made.append(1)
        return now()

    monkeypatch.setattr(free_cards, "now", counted)

    async def deed(short: Short) -> None:
        began = time.monotonic()
        async with hub.listen("cards") as listener:
            for _ in range(20):
                await sync_to_async(hints.publish)("cards")
                await listener.changed(60)
                await short.get("s")
        assert 1 <= len(made) <= 2 + (time.monotonic() - began) / crowd.CALM_S

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_it_is_read_once_for_all_who_ask_in_one_moment(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    now = free_cards.now

    def counted() -> list[FreeCards]:
        made.append(1)
        return now()

    monkeypatch.setattr(free_cards, "now", counted)

    async def deed(short: Short) -> None:
        for _ in range(2):
            made.clear()
            async with hub.listen("cards") as listener:
                await sync_to_async(hints.publish)("cards")
                await listener.changed(60)
            await asyncio.gather(*(short.get("s", language=one) for one in ("en", "zh-hans") * 5))
            assert len(made) == 1

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_a_change_that_was_heard_is_shown_by_the_next_answer(ann: User) -> None:
    async def deed(short: Short) -> None:
        assert ">8<" in await short.get("s")
        await sync_to_async(Host.objects.update)(state="cordoned")
        assert ">8<" in await short.get("s"), "it is made once, until something is heard"
        async with hub.listen("cards") as listener:
            await sync_to_async(hints.publish)("cards")
            await listener.changed(60)
        assert "none is free now" in await short.get("s")

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_all_who_ask_while_the_database_is_away_are_left_to_django(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> list[FreeCards]:
        raise OperationalError("the database is away")

    async def deed(short: Short) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(free_cards, "now", away)
            both = [short.get("s", language=language) for language in ("en", "zh-hans")]
            assert await asyncio.gather(*both) == [DJANGO] * 2
        assert ">8<" in await short.get("s"), "it is back"

    told(reader_of(ann))(deed)


def test_who_asks_while_others_are_just_told_that_the_database_is_away_is_told_so_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away() -> list[FreeCards]:
        raise OperationalError("the database is away")

    async def go() -> None:
        tiles, asked = crowd.Tiles(), list[asyncio.Task[crowd.Sent]]()

        async def crowding() -> None:
            while not any(one.done() for one in asked):  # in each turn of the loop somebody else
                kind = free_cards.Kind(exact=False, businesses=((len(asked), "x"),))
                asked.append(asyncio.create_task(tiles.fragment("en", kind)))
                await asyncio.sleep(0)

        await asyncio.gather(*(crowding() for _ in range(5)))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {OperationalError}

    monkeypatch.setattr(free_cards, "now", away)
    asyncio.run(go())


@pytest.mark.django_db(transaction=True)
def test_a_changed_quota_is_shown_by_the_next_answer(ann: User) -> None:
    async def deed(short: Short) -> None:
        assert LEFT.findall(await short.get("s")) == [("16", "16")]
        async with hub.listen("cards") as listener:
            quota = await Quota.objects.aget()
            quota.cards = 24
            await quota.asave()
            await listener.changed(60)
        assert LEFT.findall(await short.get("s")) == [("24", "24")]

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_what_a_reader_may_see_changes_with_his_rights(ann: User) -> None:
    async def deed(short: Short) -> None:
        assert LEFT.findall(await short.get("s"))
        await sync_to_async(Member.objects.all().delete)()
        readers.sees("s", await sync_to_async(reader_of)(ann))
        assert not LEFT.findall(await short.get("s"))

    told(reader_of(ann))(deed)


@pytest.mark.django_db(transaction=True)
def test_without_news_from_redis_it_is_made_anew_for_each_question(ann: User) -> None:
    """Where nothing is heard nothing can be known to be the same as before."""

    async def go() -> None:
        short = Short()
        with readers.present("s", reader):
            assert ">8<" in await short.get("s")
            await sync_to_async(Host.objects.update)(state="cordoned")
            assert "none is free now" in await short.get("s")

    reader = reader_of(ann)
    async_to_sync(go)()


@pytest.mark.django_db(transaction=True)
def test_what_is_made_of_one_version_is_not_shown_as_the_next(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is heard after the figures of the version before were read, and before anything was made of them."""
    seen, now = 0, free_cards.now

    def changing() -> list[FreeCards]:
        nonlocal seen
        seen, found = seen + 1, now()
        if seen == 1:
            Host.objects.update(state="cordoned")
        return found

    async def deed(short: Short) -> None:
        monkeypatch.setattr(free_cards, "now", changing)
        async with hub.listen("cards") as listener:
            first = [asyncio.create_task(short.get("s", language=one)) for one in ("en", "zh-hans")]
            while not seen:
                await asyncio.sleep(0)
            hub._hub()._tell("taiji:cards")
            await listener.changed(60)
            later = [short.get("s", language=one) for one in ("en", "zh-hans")]
            assert all(">8<" not in shown for shown in await asyncio.gather(*later))
            await asyncio.gather(*first)

    told(reader_of(ann))(deed)
