"""Sockets end at once when their users may have them no more."""

import time
from collections.abc import Callable

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from jobs.portal import live
from jobs.portal.routing import websocket_urlpatterns
from quotas import presence
from quotas.models import Member, PlatformRole
from tests.portal.test_live import Socket
from tests.world import World

AT_ONCE_S = 2.5  # far less than live.RECHECK_S, after which it would end without any word


def shut_out(user: User) -> None:
    user.is_active = False
    user.save()
    presence.shut_out(user)


def leave(user: User) -> None:
    Member.objects.get(user=user).delete()


def lose_role(user: User) -> None:
    PlatformRole.objects.get(user=user).delete()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", [shut_out, leave, lose_role])
def test_a_socket_ends_with_what_allowed_it(how: Callable[[User], None], valkey: str) -> None:
    world = World()
    task = world.task("ads", "owner")
    user = world.user("ann", *([] if how is lose_role else ["ads"]))
    if how is lose_role:
        PlatformRole.objects.create(user=user, role="auditor")
    assert live.RECHECK_S > 10 * AT_ONCE_S

    async def listen() -> None:
        page = Socket(user, f"topic=task.{task.pk}")
        assert await page.open()
        await page.told()
        began = time.monotonic()
        await sync_to_async(how)(user)
        await page.ends()
        assert time.monotonic() - began < AT_ONCE_S

    async_to_sync(listen)()


@pytest.mark.django_db(transaction=True)
def test_a_socket_ends_with_its_session_and_those_of_other_sessions_go_on(valkey: str) -> None:
    world = World()
    user = world.user("ann", "ads")
    here, there = Client(), Client()
    here.force_login(user)
    there.force_login(user)

    async def listen() -> None:
        ending = SessionSocket(user, here)
        staying = SessionSocket(user, there)
        for page in (ending, staying):
            assert await page.open()
            await page.told()
        await sync_to_async(here.post)("/logout/")
        await ending.ends()
        await sync_to_async(presence.rights_changed)(user.pk)
        assert (await staying.told())["changed"] == []  # it was asked about, and goes on
        await staying.leave()

    async_to_sync(listen)()


class SessionSocket(Socket):
    """A socket that comes with the session of a browser."""

    def __init__(self, user: User, client: Client) -> None:
        super().__init__(user, "topic=cards")
        cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        self._page.scope["headers"] = [(b"cookie", cookie.encode())]
        self._page.application = SessionMiddlewareStack(URLRouter(websocket_urlpatterns))
