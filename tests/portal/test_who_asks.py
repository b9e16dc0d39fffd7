"""Who asks for a part of a live page: known from his socket or session, and nobody else than he was."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from jobs.models import Task
from jobs.portal.readers import reader_of, readers
from quotas.backend import RoleBackend
from quotas.models import Member, PlatformRole
from quotas.sessions import OwnedSession, SessionStore
from tests.portal.open_pages import Pages
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pages(valkey: str, monkeypatch: pytest.MonkeyPatch) -> Pages:
    return Pages(monkeypatch)


@pytest.fixture
def task(valkey: str) -> Task:
    return World().task(task_flag="of-ads")


def test_who_has_no_socket_is_known_by_his_session_and_gets_what_others_get(pages: Pages, task: Task) -> None:
    ann, oz = pages.of(task.user), pages.of(World().user("oz", "speech"), with_socket=False)
    cid = pages.of(World().user("cid", "ads"), with_socket=False)

    async def deed() -> None:
        answers = await asyncio.gather(*(pages.ask(session) for session in (ann, cid, cid, oz)))
        assert ["of-ads" in answer for answer in answers] == [True, True, True, False]
        assert len(pages.made_at) == 2

    pages.run(deed)


@pytest.mark.parametrize("session", ["", "nobody", "no.body", "\x00", "é" * 32])
def test_who_has_no_session_gets_nothing(session: str, pages: Pages, task: Task) -> None:
    pages.of(task.user)

    async def deed() -> None:
        assert (await pages.ask(session), pages.status) == ("", 401)

    pages.run(deed)


def test_a_refusal_is_for_the_one_who_asked_alone(pages: Pages, task: Task) -> None:
    gone, cid = pages.of(task.user), pages.of(World().user("cid", "ads"))
    OwnedSession.objects.filter(session_key=gone).delete()  # without a word of it

    async def deed() -> None:
        answers = await asyncio.gather(pages.ask(gone), pages.ask(cid))
        assert (answers[0], "of-ads" in answers[1]) == ("", True)

    pages.run(deed)


def test_who_is_known_from_his_socket_is_not_read_again(
    pages: Pages, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_args: Any) -> None:
        raise AssertionError("it was known")

    ann, root = pages.of(task.user), pages.of(World().operator())
    monkeypatch.setattr(RoleBackend, "get_user", read)
    monkeypatch.setattr(SessionStore, "load", read)

    async def deed() -> None:
        for session in (ann, root):
            assert "of-ads" in await pages.ask(session)
            assert ("/stop/" in await pages.ask(session, f"/tasks/{task.pk}/"), pages.status) == (True, 200)

    pages.run(deed)


CHANGES: dict[str, Callable[[], Any]] = {
    "he has another password": lambda: User.objects.update(password="another"),
    "he was put out": lambda: User.objects.update(is_active=False),
    "his session has run out": lambda: OwnedSession.objects.update(
        expire_date=timezone.now() - timedelta(seconds=1)
    ),
    "his session is another's now": lambda: OwnedSession.objects.update(user_id=0, session_data=""),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_who_is_not_in_any_more_gets_nothing_also_where_the_word_of_it_was_lost(
    change: Callable[[], Any], pages: Pages, task: Task
) -> None:
    ann, cid = pages.of(task.user), pages.of(World().user("cid", "ads"), with_socket=False)

    async def deed() -> None:
        assert "of-ads" in await pages.ask(cid)
        await sync_to_async(change)()
        for session in (ann, cid):
            for where in ("/tasks/?state=open", f"/tasks/{task.pk}/", "/?part=mine"):
                assert (await pages.ask(session, where), pages.status) == ("", 401)

    pages.run(deed)


@pytest.mark.parametrize("was", ["operator", "superuser", "auditor"])
def test_who_is_no_overseer_any_more_sees_nothing_also_where_the_word_of_it_was_lost(
    was: str, pages: Pages, task: Task
) -> None:
    world = World()
    user = world.auditor() if was == "auditor" else world.operator()
    if was == "superuser":
        User.objects.filter(pk=user.pk).update(is_superuser=True)
        user = User.objects.get(pk=user.pk)
    sessions = pages.of(user), pages.of(user, with_socket=False)

    def change() -> None:
        PlatformRole.objects.all().delete()
        User.objects.update(is_superuser=False)

    async def deed() -> None:
        assert "of-ads" in await pages.ask(sessions[1])
        await sync_to_async(change)()
        for session in sessions:
            assert "of-ads" not in await pages.ask(session, "/tasks/?state=open")
            await pages.ask(session, f"/tasks/{task.pk}/")
            assert pages.status == 404

    pages.run(deed)


def test_what_somebody_may_see_changes_with_his_rights(pages: Pages, task: Task) -> None:
    ann = pages.of(task.user)

    async def deed() -> None:
        assert "of-ads" in await pages.ask(ann)
        await Member.objects.all().adelete()
        readers.sees(ann, await sync_to_async(reader_of)(task.user))
        assert "of-ads" not in await pages.ask(ann)

    pages.run(deed)
