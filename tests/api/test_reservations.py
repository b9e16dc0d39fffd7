"""Reservations over the API: operators make, change and end them, and what could never hold is refused."""

import json
from typing import Any

import pytest

from quotas.audit import AuditEntry
from quotas.models import Reservation
from tests.api.conftest import Caller, errors
from tests.world import World

STANDING = {"business": "ads", "gpu_type": "P40", "cards": 4}
WEEKLY = STANDING | {"kind": "weekly", "weekday": 0, "from_time": "20:00", "to_time": "08:00"}


@pytest.fixture
def root(ann: Caller, world: World) -> Caller:
    """Return an operator, in a world with ann of ads."""
    return Caller(world.operator())


def send(caller: Caller, method: str, pk: int, body: object = None) -> Any:
    return getattr(caller.client, method)(
        f"/api/v1/reservations/{pk}/",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": f"Token {caller.token}"},
    )


def test_a_reservation_is_made_changed_and_ended_with_a_line_each(root: Caller, ann: Caller) -> None:
    made = root.post(
        "reservations/", WEEKLY | {"region": "SZ", "time_zone": "Asia/Shanghai", "note": "nights"}
    )
    assert made.status_code == 201
    pk = made.json()["id"]
    assert ann.get(f"reservations/{pk}/").json() == made.json()
    assert (made.json()["from_time"], made.json()["weekday"]) == ("20:00:00", 0)
    changed = send(root, "put", pk, STANDING | {"cards": 2}).json()
    assert (changed["cards"], changed["kind"], changed["weekday"], changed["region"]) == (
        2,
        "standing",
        None,
        None,
    )
    assert send(root, "delete", pk).status_code == 204
    assert not Reservation.objects.exists()
    deeds = AuditEntry.objects.order_by("id").values_list("deed", flat=True)
    assert list(deeds) == ["reservation.added", "reservation.changed", "reservation.removed"]


def test_a_key_makes_it_once(root: Caller) -> None:
    for _time in range(2):
        assert root.post("reservations/", STANDING, Idempotency_Key="k").status_code == 201
    assert Reservation.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"business": "ads", "gpu_type": "P40"}, "cards"),
        (STANDING | {"business": "nobody"}, "business"),
        (STANDING | {"business": "  "}, "business"),
        (STANDING | {"gpu_type": "  "}, "gpu_type"),
        (STANDING | {"gpu_type": "T-1000"}, "gpu_type"),
        (STANDING | {"region": "Mars"}, "region"),
        (STANDING | {"cards": 0}, "cards"),
        (STANDING | {"kind": "once"}, "starts_at"),
        (WEEKLY | {"weekday": 7}, "weekday"),
        (WEEKLY | {"from_time": "25:00"}, "from_time"),
        (WEEKLY | {"from_time": "20:00+08:00"}, "from_time"),
        (WEEKLY | {"time_zone": "Mars/Olympus"}, "time_zone"),
        (STANDING | {"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(body: dict[str, Any], field: str, root: Caller) -> None:
    answer = root.post("reservations/", body)
    assert answer.status_code == 400
    assert field in errors(answer)
    assert not Reservation.objects.exists()


def test_all_that_is_wrong_is_told_together(root: Caller) -> None:
    body = {"business": "nobody", "kind": "weekly", "cards": "4", "from_time": "25:00", "to_time": "08:00"}
    answer = root.post(
        "reservations/", body | {"time_zone": "Mars/Olympus", "region": "Mars", "colour": "red"}
    )
    assert errors(answer) == {
        "colour": "unknown",
        "business": "unknown",
        "gpu_type": "required",
        "region": "unknown",
        "cards": "type",
        "weekday": "value",
        "from_time": "format",
        "time_zone": "value",
    }


def test_one_that_overlaps_another_is_refused(root: Caller) -> None:
    root.post("reservations/", STANDING)
    assert errors(root.post("reservations/", WEEKLY)) == {"": "value"}


def test_others_look_at_their_own_and_change_none(root: Caller, ann: Caller, outsider: Caller) -> None:
    pk = root.post("reservations/", STANDING).json()["id"]
    assert ann.post("reservations/", STANDING).status_code == 403
    assert send(ann, "put", pk, STANDING).status_code == 403
    assert send(ann, "delete", pk).status_code == 403
    assert outsider.get(f"reservations/{pk}/").status_code == 404
    assert send(outsider, "delete", pk).status_code == 404
