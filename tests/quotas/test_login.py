"""The login: who gets in, how guessing is stopped, and how people are put out."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from cluster import clock
from quotas import throttle
from quotas.audit import AuditEntry
from quotas.models import ApiToken
from quotas.sessions import OwnedSession
from tests.world import World

PASSWORD = "correct-horse-battery"


@pytest.fixture
def ann(world: World) -> User:
    user = world.user("ann", "ads")
    user.set_password(PASSWORD)
    user.save()
    return user


def enter(password: str = PASSWORD, name: str = "ann", address: str = "192.0.2.1", client: Any = None) -> Any:
    client = client or Client()
    return client.post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


def test_a_login_and_a_failed_one_are_written_with_where_they_came_from(ann: User) -> None:
    assert enter("wrong").status_code == 200
    assert enter("wrong", name="my-password-in-the-wrong-field").status_code == 200
    assert enter().status_code == 302
    entries = AuditEntry.objects.order_by("pk").values_list("deed", "actor", "target", "address")
    assert list(entries) == [
        ("login.failed", "", "ann", "192.0.2.1"),
        ("login.failed", "", "", "192.0.2.1"),
        ("login", "ann", "", "192.0.2.1"),
    ]


def test_guessing_is_stopped_with_how_long_to_wait(ann: User) -> None:
    for _ in range(throttle.MOST_OF_PAIR):
        assert enter("wrong").status_code == 200
    answer = enter()  # right, but too late
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= throttle.WINDOW.total_seconds()
    assert "Too many tries failed. Wait 15 minutes" in answer.content.decode()
    assert AuditEntry.objects.filter(deed="login.refused", target="ann").count() == 1
    with time_machine.travel(timezone.now() + throttle.WINDOW + timedelta(seconds=1)):
        assert enter().status_code == 302


def test_guessing_at_a_server_whose_clock_is_ahead_is_stopped_too(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(throttle.MOST_OF_PAIR):
        enter("wrong")
    monkeypatch.setattr(clock, "follows", True)
    with time_machine.travel(timezone.now() + 2 * throttle.WINDOW):
        assert enter().status_code == 429


def test_guessing_at_one_account_shuts_nobody_else_out(ann: User, world: World) -> None:
    bob = world.user("bob")
    bob.set_password(PASSWORD)
    bob.save()
    for _ in range(throttle.MOST_OF_PAIR + 1):
        enter("wrong")
    assert enter(name="bob").status_code == 302  # from the same address
    assert enter(address="198.51.100.7").status_code == 302  # to the same account, from elsewhere


def test_whoever_guesses_from_many_addresses_does_not_keep_the_owner_from_his_browser(ann: User) -> None:
    known = Client()
    assert enter(client=known).status_code == 302
    known.post("/logout/")
    for number in range(throttle.MOST_OF_ACCOUNT + 1):
        enter("wrong", address=f"203.0.113.{number}")
    assert enter(address="198.51.100.7").status_code == 429
    assert enter(client=known).status_code == 302


def test_the_mark_of_a_browser_lets_nobody_guess_at_other_accounts(ann: User, world: World) -> None:
    known = Client()
    enter(client=known)
    known.post("/logout/")
    world.user("bob")
    for _ in range(throttle.MOST_OF_PAIR):
        enter("wrong", name="bob", client=known)
    assert enter("wrong", name="bob", client=known).status_code == 429
    assert enter(client=known).status_code == 302


def test_the_mark_of_a_browser_does_not_let_its_bearer_guess_without_end(ann: User) -> None:
    known = Client()
    enter(client=known)
    known.post("/logout/")
    for _ in range(throttle.MOST_OF_BROWSER):
        enter("wrong", client=known)
    assert enter("wrong", client=known).status_code == 429


def test_one_who_got_in_begins_anew(ann: User) -> None:
    for _ in range(3):
        for _ in range(throttle.MOST_OF_PAIR - 1):
            enter("wrong")
        assert enter().status_code == 302


def test_tries_that_count_no_more_are_forgotten(ann: User) -> None:
    enter("wrong")
    with time_machine.travel(timezone.now() + throttle.WINDOW + timedelta(seconds=1)):
        enter("wrong", address="198.51.100.7")
    assert throttle.LoginTries.objects.count() == 3
    assert set(throttle.LoginTries.objects.values_list("failures", flat=True)) == {1}


def test_the_login_leads_only_to_pages_of_ours(ann: User) -> None:
    form = {"username": "ann", "password": PASSWORD, "next": "https://evil.example.com/"}
    assert Client().post("/login/", form)["Location"] == "/"


def test_logging_out_everywhere_leaves_this_browser_alone(ann: User) -> None:
    here, there = Client(), Client()
    here.force_login(ann)
    there.force_login(ann)
    assert here.post("/account/logout/").status_code == 302
    assert here.get("/account/").status_code == 200
    assert there.get("/account/").status_code == 302
    assert OwnedSession.objects.filter(user_id=ann.pk).count() == 1


def test_a_new_password_ends_all_other_sessions(ann: User) -> None:
    here, there = Client(), Client()
    enter(client=here)
    enter(client=there)
    new = {
        "old_password": PASSWORD,
        "new_password1": "other-horse-battery",
        "new_password2": "other-horse-battery",
    }
    assert here.post("/account/password/", new).status_code == 302
    assert here.get("/account/").status_code == 200
    assert there.get("/account/").status_code == 302
    assert enter("other-horse-battery").status_code == 302


def test_the_old_password_is_not_guessed_on_the_page_either(ann: User) -> None:
    here = Client()
    here.force_login(ann)
    wrong = {
        "old_password": "wrong",
        "new_password1": "other-horse-battery",
        "new_password2": "other-horse-battery",
    }
    for _ in range(throttle.MOST_OF_OLD_PASSWORD):
        assert here.post("/account/password/", wrong).status_code == 400
    answer = here.post("/account/password/", {**wrong, "old_password": PASSWORD})
    assert answer.status_code == 400
    assert "Too many tries failed" in answer.content.decode()


def test_who_is_made_inactive_in_the_admin_is_out_by_every_way(ann: User, world: World) -> None:
    here, root = Client(), Client()
    here.force_login(ann)
    secret = ApiToken.objects.issue(ann, "ci")
    root.force_login(world.operator())
    form = {
        "username": "ann",
        "date_joined_0": "2030-01-01",
        "date_joined_1": "00:00:00",
        **{
            f"{prefix}-{part}": 0
            for prefix in ("platform_role", "member_set")
            for part in ("TOTAL_FORMS", "INITIAL_FORMS")
        },
    }
    assert root.post(f"/admin/auth/user/{ann.pk}/change/", form).status_code == 302
    ann.refresh_from_db()
    assert not ann.is_active
    assert here.get("/account/").status_code == 302
    assert not OwnedSession.objects.filter(user_id=ann.pk).exists()
    assert not ApiToken.objects.by_secret(secret)
    ann.is_active = True
    ann.save()
    assert here.get("/account/").status_code == 302
    assert not ApiToken.objects.by_secret(secret)
    assert AuditEntry.objects.filter(deed="user.changed", target="ann", actor="root").exists()
