"""Reservations as operators write them."""

from datetime import UTC, datetime, time, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from jobs.engine import passes, snapshot
from quotas.models import Reservation
from tests.world import World

pytestmark = pytest.mark.django_db


def reserve(world: World, **fields: object) -> Reservation:
    values = {"business": world.business("ads"), "gpu_type": world.gpu_type(), "cards": 8, **fields}
    row = Reservation(**values)
    row.full_clean()
    row.save()
    return row


WEEKLY = {"kind": "weekly", "weekday": 6, "from_time": time(1, 30), "to_time": time(3, 30)}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "once"}, "starts_at"),
        ({**WEEKLY, "weekday": None}, "weekday"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        (
            {
                "kind": "once",
                "starts_at": datetime(2030, 1, 2, tzinfo=UTC),
                "ends_at": datetime(2030, 1, 1, tzinfo=UTC),
            },
            "ends_at",
        ),
    ],
)
def test_a_reservation_that_can_never_hold_is_refused_by_its_field(
    world: World, fields: dict[str, object], field: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        reserve(world, **fields)
    assert field in refused.value.message_dict


def test_two_that_overlap_are_refused_and_two_that_do_not_are_taken(world: World) -> None:
    reserve(world, **WEEKLY, time_zone="America/New_York")
    reserve(world, **{**WEEKLY, "weekday": 5}, time_zone="America/New_York")
    with pytest.raises(ValidationError, match="overlaps"):
        reserve(world, **{**WEEKLY, "from_time": time(3), "to_time": time(5)}, time_zone="America/New_York")


def test_a_pass_reads_each_window_of_the_days_ahead(world: World) -> None:
    reserve(world, **WEEKLY, time_zone="Asia/Shanghai")
    windows = snapshot.load(timezone.now().timestamp(), 3600).snapshot.reservations
    assert len(windows) in {2, 3}
    assert all(row.end - row.start == 7200 for row in windows)


def test_reserved_cards_are_not_given_to_a_high_task_of_another_business(world: World) -> None:
    world.host("h1")
    world.business("nlp", P40=8)
    reserve(world)
    task = world.task("nlp", "ben", cards=4)
    passes.run()
    task.refresh_from_db()
    assert (task.state, task.reason_code) == ("queued", "reserved")


def test_a_reservation_that_is_over_binds_nothing(world: World) -> None:
    world.host("h1")
    world.business("nlp", P40=8)
    past = timezone.now() - timedelta(hours=2)
    reserve(world, kind="once", starts_at=past, ends_at=past + timedelta(hours=1))
    task = world.task("nlp", "ben", cards=4)
    passes.run()
    task.refresh_from_db()
    assert task.state == "starting"
