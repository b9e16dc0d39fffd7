"""Sockets end at once when their users may have them no more."""

import time
from collections.abc import Callable

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.portal import live
from jobs.portal.routing import websocket_urlpatterns
from quotas import presence, still_in
from quotas.models import Member, PlatformRole
from quotas.sessions import OwnedSession
from tests.portal.test_live import Socket
from tests.world import World

AT_ONCE_S = live.RECHECK_S / 2  # after all of it, it would end without any word


def shut_out(user: User) -> None:
    user.is_active = False
    user.save()
    presence.shut_out(user)


def leave(user: User) -> None:
    Member.objects.get(user=user).delete()


def change_password(user: User) -> None:
    """Change it as a program of the server would, which ends no sessions by itself."""
    changed = User.objects.get(pk=user.pk)
    changed.set_password("another one")
    changed.save()
    presence.rights_changed(user.pk)


def lose_role(user: User) -> None:
    PlatformRole.objects.get(user=user).delete()


def taken_from_a_list(row: Model) -> None:
    """Remove a row as operators do who tick several of them."""
    operator = Client()
    operator.force_login(World().operator())
    form = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    operator.post(reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_changelist"), form)
    assert not type(row)._default_manager.filter(pk=row.pk).exists()


def leave_from_a_list(user: User) -> None:
    taken_from_a_list(Member.objects.get(user=user))


def lose_role_from_a_list(user: User) -> None:
    taken_from_a_list(PlatformRole.objects.get(user=user))


def go_from_a_list(user: User) -> None:
    taken_from_a_list(user)


BY_ROLE = (lose_role, lose_role_from_a_list)
WAYS = [shut_out, leave, change_password, lose_role, leave_from_a_list, lose_role_from_a_list, go_from_a_list]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", WAYS)
def test_a_socket_ends_with_what_allowed_it(how: Callable[[User], None], valkey: str) -> None:
    world = World()
    task = world.task("ads", "owner")
    user = world.user("ann", *([] if how in BY_ROLE else ["ads"]))
    if how in BY_ROLE:
        PlatformRole.objects.create(user=user, role="auditor")

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
        while (await staying.told())["changed"]:  # that Redis is there may be said late
            pass
        # it was asked about, and goes on
        await staying.leave()

    async_to_sync(listen)()


@pytest.mark.django_db(transaction=True)
def test_a_session_that_is_over_by_its_time_is_nobodys_any_more() -> None:
    browser = Client()
    ann = World().user("ann", "ads")
    browser.force_login(ann)
    key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    assert still_in.now(ann, key) == ann
    assert still_in.is_as_read(ann, key)
    OwnedSession.objects.update(expire_date=timezone.now())
    assert still_in.now(ann, key) is None
    assert not still_in.is_as_read(ann, key)
    assert browser.get("/").status_code == 302, "as the pages see it"


def ends_session(user: User, key: str) -> None:
    OwnedSession.objects.filter(session_key=key).delete()


def hands_session_on(user: User, key: str) -> None:
    OwnedSession.objects.filter(session_key=key).update(user_id=World().user("bob").pk)


def logs_out(user: User, key: str) -> None:
    OwnedSession.objects.filter(session_key=key).update(user_id=None)


def is_made_inactive(user: User, key: str) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def gets_a_password(user: User, key: str) -> None:
    User.objects.filter(pk=user.pk).update(password="another")


def is_deleted(user: User, key: str) -> None:
    User.objects.filter(pk=user.pk).delete()


OUT = [ends_session, hands_session_on, logs_out, is_made_inactive, gets_a_password, is_deleted]


@pytest.mark.django_db
@pytest.mark.parametrize("how", OUT)
def test_whoever_is_in_no_more_is_so_for_sockets_and_for_pages_alike(
    how: Callable[[User, str], None],
) -> None:
    browser, user = Client(), World().user("ann")
    browser.force_login(user)
    key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    how(user, key)
    assert still_in.now(user, key) is None
    assert not still_in.is_as_read(user, key)


@pytest.mark.django_db
def test_whoever_got_a_role_is_still_in_and_is_not_as_he_was_read() -> None:
    browser, ann = Client(), World().user("ann")
    browser.force_login(ann)
    user = User.objects.select_related("platform_role").get(pk=ann.pk)
    key = browser.cookies[settings.SESSION_COOKIE_NAME].value
    PlatformRole.objects.create(user=ann, role="auditor")
    assert still_in.now(user, key) == user
    assert not still_in.is_as_read(user, key)


class SessionSocket(Socket):
    """A socket that comes with the session of a browser."""

    def __init__(self, user: User, client: Client) -> None:
        super().__init__(user, "topic=cards")
        cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        self._page.scope["headers"] = [(b"cookie", cookie.encode())]
        self._page.application = SessionMiddlewareStack(URLRouter(websocket_urlpatterns))
