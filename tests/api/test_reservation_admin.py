"""Reservations in the admin: what can never hold is refused at its field, and so is what holds already."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from quotas import reserving
from quotas.models import Reservation
from tests.api.test_admin_races import AT_ONCE, deeds
from tests.api.test_kept_admin import address, root
from tests.api.test_scenarios import together
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


def by_itself(world: World) -> Client:
    """Return the browser of an operator, for a request in a thread of its own."""
    browser = Client()
    browser.force_login(world.operator())
    return browser


@pytest.mark.django_db(transaction=True)
def test_cards_that_many_reserve_at_once_are_reserved_once_and_the_others_read_why(
    world: World, root: Client
) -> None:
    fields, page = form(world, **ONCE), address(Reservation, "add")
    browsers = [by_itself(world) for _ in range(AT_ONCE)]
    answers = together(AT_ONCE, lambda place: browsers[place].post(page, fields))
    refused = [answer for answer in answers if answer.status_code == 200]
    assert (Reservation.objects.count(), len(refused)) == (1, AT_ONCE - 1)
    assert all("It overlaps with reservation" in answer.content.decode() for answer in refused)
    assert deeds() == ["reservation.added"]


@pytest.mark.django_db(transaction=True)
def test_a_reservation_that_is_ended_while_it_is_changed_does_not_come_back(
    world: World, root: Client
) -> None:
    made = Reservation.objects.create(business=world.business(), gpu_type=world.gpu_type(), cards=1)
    fields = form(world, kind="standing")
    browsers = [by_itself(world) for _ in range(AT_ONCE)]

    def act(place: int) -> int:
        if place % 2:
            return int(browsers[place].post(address(Reservation, "change", made.pk), fields).status_code)
        page = address(Reservation, "delete", made.pk)
        return int(browsers[place].post(page, {"post": "yes"}).status_code)

    assert set(together(AT_ONCE, act)) <= {200, 302}  # 200: it says that it was ended
    assert not Reservation.objects.exists()
    assert deeds().count("reservation.removed") == 1
    assert Reservation.history.filter(history_type="-").count() == 1


def test_one_that_is_ended_while_its_form_is_read_says_so(
    world: World, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Reservation.objects.create(business=world.business(), gpu_type=world.gpu_type(), cards=1)
    inner = reserving.hold

    def late(reservation: Reservation) -> None:
        Reservation.objects.all().delete()
        inner(reservation)

    monkeypatch.setattr(reserving, "hold", late)
    answer = root.post(address(Reservation, "change", made.pk), form(world, kind="standing"))
    assert "Somebody else ended this reservation just now." in answer.content.decode()


def test_the_audit_has_one_line_for_each_deed(world: World, root: Client) -> None:
    root.post(address(Reservation, "add"), form(world, kind="standing"))
    made = Reservation.objects.get()
    fields = form(world, kind="standing", cards="5")
    root.post(address(Reservation, "change", made.pk), fields)
    chosen = {"action": "delete_selected", "_selected_action": [made.pk], "post": "yes"}
    root.post(address(Reservation, "changelist"), chosen)
    assert deeds() == ["reservation.added", "reservation.changed", "reservation.removed"]
    assert not Reservation.objects.exists()


@pytest.mark.parametrize(
    ("fields", "english", "chinese"),
    [
        ({"kind": "standing"}, "always", "始终"),
        (
            {**ONCE, "kind": "standing", "ends_at_0": "", "ends_at_1": ""},
            f"always, from {DAY} 08:00 on",
            f"始终, 自 {DAY} 08:00 起",
        ),
        (ONCE, f"{DAY} 08:00 – {NEXT} 08:00", f"{DAY} 08:00 – {NEXT} 08:00"),
        (
            WEEKLY,
            "each Sunday 22:00 to 06:00 of the next day (Asia/Shanghai)",
            "每星期日 22:00 至次日 06:00（Asia/Shanghai）",
        ),
        (
            {**WEEKLY, "from_time": "08:00", "to_time": "20:00"},
            "each Sunday 08:00 to 20:00 (Asia/Shanghai)",
            "每星期日 08:00 至 20:00（Asia/Shanghai）",
        ),
    ],
)
def test_the_list_and_the_page_of_the_business_say_when_each_holds(
    world: World, root: Client, fields: dict[str, str], english: str, chinese: str
) -> None:
    root.post(address(Reservation, "add"), form(world, **fields))
    pages = (address(Reservation, "changelist"), reverse("business", args=[world.business().pk]))
    for language, words in (("en", english), ("zh-hans", chinese)):
        root.post("/i18n/setlang/", {"language": language})
        assert all(words in root.get(page).content.decode() for page in pages)
