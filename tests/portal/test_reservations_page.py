"""The calendar of reservations: when each holds by the clocks of whoever looks, and what does not fit together."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from cluster.models import Card, Host
from jobs.portal.reservation_week import Ground, Week, grounds, windows_of
from quotas.models import Reservation
from tests.portal.conftest import Login
from tests.world import World

PAGE = "/cluster/reservations/"
BERLIN, SHANGHAI = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Shanghai")
MONDAY = date(2026, 11, 2)  # in a week without a change of clocks
WEEK = Week.of(MONDAY, ZoneInfo("UTC"))


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def reserve(world: World, flag: str, cards: int, **fields: Any) -> Reservation:
    given = {"business": world.business(flag), "gpu_type": world.gpu_type(), "cards": cards, **fields}
    return Reservation.objects.create(**given)


def once(world: World, flag: str, cards: int, start: datetime, end: datetime, **fields: Any) -> Reservation:
    return reserve(world, flag, cards, kind="once", starts_at=start, ends_at=end, **fields)


def weekly(world: World, flag: str, cards: int, weekday: int, start: int, end: int, zone: str) -> Reservation:
    clock = {"from_time": time(start), "to_time": time(end), "time_zone": zone}
    return reserve(world, flag, cards, kind="weekly", weekday=weekday, **clock)


def found(world: World, there: int, week: Week = WEEK) -> list[Ground]:
    rows = list(Reservation.objects.select_related("business", "gpu_type", "region").order_by("pk"))
    gpu_type, region = world.gpu_type().pk, world.region().pk
    return grounds(rows, {(gpu_type, None): there, (gpu_type, region): there // 2}, week)


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        (date(2026, 11, 4), BERLIN, [24] * 7),
        (date(2026, 10, 25), BERLIN, [24] * 6 + [25]),
        (date(2026, 3, 29), BERLIN, [24] * 6 + [23]),
        (date(2026, 3, 29), SHANGHAI, [24] * 7),
    ],
)
def test_a_week_goes_by_the_calendar_of_its_zone(day: date, zone: ZoneInfo, hours: list[int]) -> None:
    week = Week.of(day, zone)
    assert week.monday.weekday() == 0
    lengths = [
        (end - start) / timedelta(hours=1) for start, end in zip(week.edges, week.edges[1:], strict=False)
    ]
    assert lengths == hours
    assert [edge.astimezone(zone).time() for edge in week.edges] == [time()] * 8


def test_noon_is_drawn_in_the_middle_of_its_day_also_where_clocks_changed_before() -> None:
    week = Week.of(date(2026, 10, 25), BERLIN)
    assert week.x(datetime(2026, 10, 24, 12, tzinfo=BERLIN)) == 550
    assert week.x(datetime(2026, 10, 25, 12, tzinfo=BERLIN)) == pytest.approx(600 + 100 * 13 / 25)
    assert week.x(week.since - timedelta(days=1)) == 0
    assert week.x(week.until + timedelta(days=1)) == 700


def test_a_weekly_window_keeps_to_the_clocks_of_its_own_zone(world: World) -> None:
    """At 22:00 in Berlin it is 20:00 in UTC in summer, and 21:00 in winter."""
    weekly(world, "ads", 4, 5, 22, 6, "Europe/Berlin")
    starts = [
        windows_of(Reservation.objects.select_related("business"), Week.of(day, ZoneInfo("UTC")))[0].start
        for day in (date(2026, 10, 24), date(2026, 10, 31))
    ]
    assert [start.hour for start in starts] == [20, 21]


def test_a_window_that_is_longer_than_the_week_is_cut_for_the_drawing_alone(world: World) -> None:
    once(world, "ads", 4, at(1), at(4))
    reserve(world, "nlp", 4)
    first, second = windows_of(Reservation.objects.select_related("business"), WEEK)[::-1]
    assert (first.start, first.end, first.x, first.width) == (at(1), at(4), 0, 200)
    assert (first.begins, first.ends) == (False, True)
    assert (second.x, second.width, second.begins, second.ends) == (0, 700, False, False)


def test_more_cards_than_there_are_is_a_conflict_for_as_long_as_it_lasts(world: World) -> None:
    once(world, "ads", 8, at(2), at(4))
    once(world, "nlp", 12, at(3), at(5))
    spans = found(world, 16)[0].spans
    assert [(span.start, span.end, span.cards, span.over) for span in spans] == [
        (at(2), at(3), 8, False), (at(3), at(4), 20, True), (at(4), at(5), 12, False)
    ]  # fmt: skip
    conflict = found(world, 16)[0].conflicts
    assert [(span.start, span.holders) for span in conflict] == [(at(3), (("ads", 8), ("nlp", 12)))]


def test_one_business_alone_may_reserve_more_than_there_is_and_that_is_a_conflict(world: World) -> None:
    reserve(world, "ads", 20)
    assert [span.over for span in found(world, 16)[0].conflicts] == [True]


def test_several_businesses_at_once_are_named_although_all_fits(world: World) -> None:
    once(world, "ads", 4, at(2), at(4))
    once(world, "nlp", 4, at(3), at(5))
    conflict = found(world, 16)[0].conflicts
    assert [(span.start, span.end, span.over, span.shared) for span in conflict] == [
        (at(3), at(4), False, True)
    ]


def test_one_after_the_other_is_no_conflict(world: World) -> None:
    once(world, "ads", 16, at(2), at(4))
    once(world, "nlp", 16, at(4), at(5))
    assert found(world, 16)[0].conflicts == []


def test_what_is_reserved_in_a_region_counts_there_and_in_all_of_them(world: World) -> None:
    once(world, "ads", 12, at(2), at(4), region=world.region())
    once(world, "nlp", 4, at(2), at(4))
    everywhere, there = found(world, 16)
    assert (everywhere.region, there.region) == ("", "SZ")
    assert [(span.cards, span.there, span.over) for span in everywhere.spans] == [(16, 16, False)]
    assert [(span.cards, span.there, span.over) for span in there.spans] == [(12, 8, True)]


def test_times_are_those_of_the_zone_that_was_chosen_which_is_remembered(
    world: World, operator: Client
) -> None:
    once(world, "ads", 4, at(2, 20), at(3, 2))
    page = operator.get(PAGE, {"week": "2026-11-04", "zone": "Asia/Shanghai"}).content.decode()
    assert "Tue 2026-11-03 04:00" in page
    assert "Times are in CST" in page
    again = operator.get(PAGE, {"week": "2026-11-04"}).content.decode()
    assert "Tue 2026-11-03 04:00" in again
    assert "Times are in UTC" in operator.get("/hosts/").content.decode()


def test_a_zone_that_does_not_exist_is_a_fault_with_a_way_out(operator: Client) -> None:
    page = operator.get(PAGE, {"zone": "Mars/Olympus"}).content.decode()
    assert "write one like Asia/Shanghai" in page


@pytest.mark.parametrize("week", ["soon", "2026-13-01", "9999-12-31", "0001-01-01", ""])
def test_a_week_that_means_nothing_is_this_one(week: str, operator: Client) -> None:
    page = operator.get(PAGE, {"week": week})
    assert page.context["today"] in page.context["days"]


def test_cards_that_are_missing_broken_or_of_removed_hosts_are_not_there(
    world: World, operator: Client
) -> None:
    world.host("h2", region="GZ").cards.filter(index__lt=3).update(state=Card.State.BROKEN)
    world.host("h1").cards.filter(index=0).update(state=Card.State.MISSING)
    Host.objects.filter(pk=world.host("h3").pk).update(state="removed")
    reserve(world, "ads", 4)
    ground = operator.get(PAGE).context["grounds"][0]
    assert ground.there == 5 + 7


def test_only_one_type_is_shown_where_one_is_asked_for(world: World, operator: Client) -> None:
    reserve(world, "ads", 4)
    reserve(world, "ads", 4, gpu_type=world.gpu_type("M40"))
    shown = operator.get(PAGE, {"gpu_type": "M40"}).context
    assert [ground.gpu_type for ground in shown["grounds"]] == ["M40"]
    assert shown["types"] == ["M40", "P40"]


def test_members_see_none_of_it_and_auditors_change_none(
    world: World, ann: Client, operator: Client, login: Login
) -> None:
    reserve(world, "ads", 4)
    assert ann.get(PAGE).status_code == 404
    auditor = login(world.auditor())
    assert b"quotas/reservation/" not in auditor.get(PAGE).content
    assert b"quotas/reservation/add/" in operator.get(PAGE).content


def test_the_number_of_queries_does_not_grow_with_the_reservations(world: World, operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            operator.get(PAGE)
        return len(seen)

    reserve(world, "ads", 4)
    few = queries()
    for number in range(10):
        reserve(world, f"b{number}", 4, gpu_type=world.gpu_type(f"T{number}"), region=world.region())
    assert queries() == few
