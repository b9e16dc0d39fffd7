"""One's own password over the API: by the rules of the page, and read by nobody after."""

import json
import logging
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.models import KeptAnswer
from quotas import issuing, throttle
from quotas.audit import AuditEntry
from quotas.sessions import OwnedSession
from tests.api.conftest import Caller, errors

OLD, NEW = "correct-horse-old", "correct-horse-new"
PATH = "me/password/"


@pytest.fixture
def ann(ann: Caller) -> Caller:
    """Return a member who has a password."""
    ann.user.set_password(OLD)
    ann.user.save()
    return ann


def knows(password: str) -> bool:
    """Say whether it is ann's password now."""
    return User.objects.get(username="ann").check_password(password)


def test_the_new_one_lets_in_and_what_the_old_one_began_ends(ann: Caller) -> None:
    browser = Client()
    assert browser.login(username="ann", password=OLD)
    assert ann.post(PATH, {"old_password": OLD, "new_password": NEW}).status_code == 204
    assert knows(NEW)
    assert not OwnedSession.objects.filter(user_id=ann.user.pk).exists()
    assert browser.get("/account/").status_code == 302
    assert ann.get("me/").status_code == 200, "tokens stay"
    assert list(AuditEntry.objects.values_list("deed", "actor", "args")) == [("password.changed", "ann", {})]


def test_who_comes_with_a_session_stays_in_with_that_one_alone(ann: Caller) -> None:
    here, there = Client(), Client()
    for browser in (here, there):
        assert browser.login(username="ann", password=OLD)
    body = {"old_password": OLD, "new_password": NEW}
    assert here.post(f"/api/v1/{PATH}", body, content_type="application/json").status_code == 204
    assert here.get("/account/").status_code == 200
    assert there.get("/account/").status_code == 302


def test_what_stands_at_its_ends_is_part_of_it(ann: Caller) -> None:
    assert ann.post(PATH, {"old_password": OLD, "new_password": f" {NEW} "}).status_code == 204
    assert knows(f" {NEW} ")
    assert not knows(NEW)


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ({"old_password": "guess", "new_password": NEW}, {"old_password": "wrong"}),
        ({"old_password": OLD, "new_password": "kq7-zx"}, {"new_password": "password_too_short"}),
        (
            {"old_password": "guess", "new_password": "12345678901", "colour": "red"},
            {"colour": "unknown", "old_password": "wrong", "new_password": "password_entirely_numeric"},
        ),
        ({}, {"old_password": "required", "new_password": "required"}),
        ({"old_password": 1, "new_password": "x" * 5000}, {"old_password": "type", "new_password": "length"}),
        ({"old_password": OLD, "new_password": "\ud800" * 12}, {"new_password": "character"}),
    ],
)
def test_all_that_is_wrong_is_told_and_nothing_changes(
    ann: Caller, body: dict[str, Any], faults: dict[str, str]
) -> None:
    answer = ann.post(PATH, body)
    assert answer.status_code == 400
    assert errors(answer) == faults
    assert knows(OLD)


def test_nobody_guesses_often_at_the_old_one(ann: Caller) -> None:
    for _time in range(throttle.MOST_OF_OLD_PASSWORD):
        assert ann.post(PATH, {"old_password": "guess", "new_password": NEW}).status_code == 400
    refused = ann.post(PATH, {"old_password": OLD, "new_password": NEW})
    assert (refused.status_code, errors(refused)) == (429, {"": "throttled"})
    assert 0 < int(refused["Retry-After"]) <= 900
    assert knows(OLD)


def test_a_token_that_is_not_all_that_its_user_is_changes_none(ann: Caller) -> None:
    ads = ann.user.member_set.get().business
    for scope, business in (("manage", ads), ("submit", None)):
        _token, secret = issuing.issue(ann.user, "x", scope=scope, expires_at=None, business=business)
        body = json.dumps({"old_password": OLD, "new_password": NEW})
        headers = {"Authorization": f"Token {secret}"}
        answer = Client().post(f"/api/v1/{PATH}", body, content_type="application/json", headers=headers)
        assert answer.status_code == 403
    assert knows(OLD)


def test_who_has_none_is_told_so(ann: Caller) -> None:
    ann.user.set_unusable_password()
    ann.user.save()
    assert errors(ann.post(PATH, {"old_password": OLD, "new_password": NEW})) == {"": "no_password"}


def test_it_is_written_nowhere(ann: Caller, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        ann.post(PATH, {"old_password": "guess-at-it", "new_password": NEW}, Idempotency_Key="k")
        ann.post(PATH, {"old_password": OLD, "new_password": NEW}, Idempotency_Key="k")
    written = caplog.text + str(list(AuditEntry.objects.values())) + str(list(KeptAnswer.objects.values()))
    assert not {word for word in ("guess-at-it", OLD, NEW) if word in written}
