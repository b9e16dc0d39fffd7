"""Reservations in the admin: what can never hold is refused at its field, and so is what holds already."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from quotas.models import Reservation
from tests.api.test_kept_admin import address, root
from tests.world import World

__all__ = ["root"]  # the fixture

DAY, NEXT = (f"{timezone.now() + timedelta(days=days):%Y-%m-%d}" for days in (30, 31))
ONCE = {
    "kind": "once",
    "starts_at_0": DAY,
    "starts_at_1": "08:00",
    "ends_at_0": NEXT,
    "ends_at_1": "08:00",
}
WEEKLY = {"kind": "weekly", "weekday": "6", "from_time": "22:00", "to_time": "06:00"}


def form(world: World, **fields: str) -> dict[str, object]:
    keys = {"business": world.business().pk, "gpu_type": world.gpu_type().pk}
    return {**keys, "cards": "6", "time_zone": "Asia/Shanghai", **fields}


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({**ONCE, "cards": "0"}, "cards", "至少预留一张卡。"),
        ({**ONCE, "cards": "-1"}, "cards", "0"),
        ({**ONCE, "ends_at_0": "2020-04-01"}, "ends_at", "结束时间早于开始时间。"),
        ({"kind": "once"}, "starts_at", "这种预留必须填写此项。"),
        ({**WEEKLY, "weekday": ""}, "weekday", "这种预留必须填写此项。"),
        ({**WEEKLY, "time_zone": "Mars/Base"}, "time_zone", "Asia/Shanghai"),
    ],
)
def test_what_can_never_hold_is_refused_at_its_field(
    world: World, root: Client, fields: dict[str, str], field: str, said: str
) -> None:
    answer = root.post(
        address(Reservation, "add"), form(world, **fields), headers={"accept-language": "zh-hans"}
    )
    assert said in str(answer.context["adminform"].errors[field])
    assert not Reservation.objects.exists()


def test_two_of_one_business_at_one_time_are_refused_with_the_first_time_of_both(
    world: World, root: Client
) -> None:
    page = address(Reservation, "add")
    assert root.post(page, form(world, **ONCE)).status_code == 302
    later = {**ONCE, "starts_at_1": "20:00"}
    assert f"at {DAY} 20:00." in root.post(page, form(world, **later)).content.decode()
    assert Reservation.objects.count() == 1
