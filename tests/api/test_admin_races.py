"""Operators who change the same thing at the same moment: each is answered, and the audit says what came of it."""

import json
from typing import Any

import pytest

from quotas import issuing
from quotas.audit import AuditEntry
from quotas.models import ApiToken, Reservation
from tests.api.conftest import Caller
from tests.api.test_scenarios import together
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)
STANDING = {"business": "ads", "gpu_type": "P40", "cards": 4}
AT_ONCE = 8


def send(caller: Caller, method: str, path: str, body: object = None) -> int:
    answer: Any = getattr(caller.client, method)(
        f"/api/v1/{path}",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Token {caller.token}"},
    )
    return int(answer.status_code)


def deeds() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("deed", flat=True))


@pytest.fixture
def root(ann: Caller, world: World) -> Caller:
    """Return an operator, in a world with ann of ads."""
    return Caller(world.operator())


def test_somebody_whom_many_take_in_at_once_is_taken_in_once(root: Caller, world: World) -> None:
    ads = world.business("ads").pk
    world.user("bob")
    path = f"businesses/{ads}/members/bob/"
    answers = together(AT_ONCE, lambda _: send(root, "put", path, {"role": "lead"}))
    assert sorted(answers) == [*[200] * (AT_ONCE - 1), 201]
    assert deeds() == ["member.added"]


def test_somebody_whom_many_put_out_at_once_is_put_out_once(root: Caller, world: World) -> None:
    path = f"businesses/{world.business('ads').pk}/members/ann/"
    answers = together(AT_ONCE, lambda _: send(root, "delete", path))
    assert set(answers) <= {204, 404}
    assert deeds() == ["member.removed"]


def test_a_token_that_many_revoke_at_once_is_revoked_once(ann: Caller) -> None:
    _token, _secret = issuing.issue(ann.user, "x", scope="read", expires_at=None, business=None)
    path = f"tokens/{ApiToken.objects.get(name='x').pk}/"
    answers = together(AT_ONCE, lambda _: send(ann, "delete", path))
    assert set(answers) <= {204, 404}
    assert deeds() == ["token.made", "token.revoked"]


def test_no_more_tokens_than_anybody_may_have_are_made_however_many_ask_at_once(
    ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuing, "MOST", 3)
    answers = together(
        AT_ONCE, lambda place: send(ann, "post", "tokens/", {"name": f"t{place}", "scope": "read"})
    )
    assert sorted(answers) == [201, 201, *[400] * (AT_ONCE - 2)]
    assert ApiToken.objects.filter(user=ann.user).count() == 3


def test_cards_that_many_reserve_at_once_are_reserved_once(root: Caller) -> None:
    answers = together(AT_ONCE, lambda _: send(root, "post", "reservations/", STANDING))
    assert sorted(answers) == [201, *[400] * (AT_ONCE - 1)]
    assert Reservation.objects.count() == 1
    assert deeds() == ["reservation.added"]


def test_a_reservation_that_many_end_at_once_is_ended_once(root: Caller) -> None:
    root.post("reservations/", STANDING)
    path = f"reservations/{Reservation.objects.get().pk}/"
    answers = together(AT_ONCE, lambda _: send(root, "delete", path))
    assert set(answers) <= {204, 404}
    assert deeds() == ["reservation.added", "reservation.removed"]


def change_and_end(root: Caller) -> list[int]:
    """Reserve cards; let one end that while the others change it, and return what each is answered."""
    root.post("reservations/", STANDING)
    path = f"reservations/{Reservation.objects.get().pk}/"
    return together(
        AT_ONCE, lambda place: send(root, "put" if place else "delete", path, STANDING if place else None)
    )


def test_a_reservation_that_is_ended_while_it_is_changed_does_not_come_back(root: Caller) -> None:
    for _time in range(5):
        ended, *changed = change_and_end(root)
        assert ended == 204
        assert set(changed) <= {200, 404}
        assert not Reservation.objects.exists()
