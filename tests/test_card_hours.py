"""Card-hours by day: what is kept and what is added up at once are the same, whatever was summed up when."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from quotas import card_hours
from quotas.card_hours import ByUser, OnDay, Span, Use
from quotas.models import DayUse, DayUseKept, UsageRow
from tests.world import World

NOW = datetime(2030, 1, 10, 12, tzinfo=UTC)
FIRST = date(2029, 12, 1)


def ended(world: World, began: datetime, hours: float, cards: int = 1, **fields: Any) -> None:
    """Write a usage row."""
    ids = {
        "business": world.business("ads"),
        "user": world.user("ann"),
        "gpu_type": world.gpu_type(),
        "task_class": "high",
        "outcome": "succeeded",
    }
    UsageRow.objects.create(
        attempt=UsageRow.objects.count() + 1,
        task=1,
        cards=cards,
        started_at=began,
        ended_at=began + timedelta(hours=hours),
        seconds=hours * 3600,
        **ids | fields,
    )


def hours(world: World) -> dict[str, float]:
    """Return the card-hours of ads by day, such as {"01-09": 3.0}."""
    found: dict[str, float] = {}
    for share, card_s in of_ads(world).on_days.items():
        day = f"{share.day:%m-%d}"
        found[day] = found.get(day, 0.0) + card_s / 3600
    return found


def of_ads(world: World) -> Use:
    return card_hours.of_business(world.business("ads").pk, FIRST, [])


def test_an_attempt_over_midnight_counts_on_both_days(world: World) -> None:
    ended(world, datetime(2030, 1, 8, 23, tzinfo=UTC), 26, cards=2)
    assert hours(world) == {"01-08": 2.0, "01-09": 48.0, "01-10": 2.0}


def test_days_are_those_of_the_zone_of_the_pages(world: World, settings: Settings) -> None:
    settings.TIME_ZONE = "Asia/Shanghai"
    ended(world, datetime(2030, 1, 8, 15, tzinfo=UTC), 2)
    assert hours(world) == {"01-08": 1.0, "01-09": 1.0}


def test_a_day_on_which_clocks_change_has_its_own_length(world: World, settings: Settings) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    ended(world, datetime(2030, 3, 30, 12, tzinfo=UTC), 48)
    assert hours(world) == {"03-30": 11.0, "03-31": 23.0, "04-01": 14.0}


def test_what_still_runs_counts_until_now_and_nothing_before_the_first_day_counts(world: World) -> None:
    span = Span(
        gpu_type=1, task_class="high", user=1, cards=3, begin=datetime(2030, 1, 8, tzinfo=UTC), end=NOW
    )
    found = card_hours.of_business(world.business("ads").pk, date(2030, 1, 10), [span])
    assert found.on_days == {OnDay(date(2030, 1, 10), 1, "high"): 3 * 12 * 3600}
    assert found.by_users == {ByUser(1, "high"): 3 * 12 * 3600}


@pytest.mark.parametrize("kept_at", [[], [0], [1, 2, 3], [9, 9]])
def test_kept_sums_change_no_figure(world: World, kept_at: list[int]) -> None:
    for day in range(1, 9):
        ended(world, datetime(2030, 1, day, 7, tzinfo=UTC), 30, cards=day)
        ended(world, datetime(2030, 1, day, 7, tzinfo=UTC), 0.5, user=world.user("bob"), task_class="elastic")
    before = of_ads(world)
    for days in kept_at:
        card_hours.keep(NOW - timedelta(days=9 - days))
    after = of_ads(world)
    assert after.on_days == pytest.approx(before.on_days)
    assert after.by_users == pytest.approx(before.by_users)
    assert sum(after.on_days.values()) == pytest.approx(sum(after.by_users.values()))


def test_of_kept_sums_as_many_rows_are_read_as_are_shown_whatever_the_number_of_users(world: World) -> None:
    for number in range(20):
        ended(world, NOW - timedelta(days=3), 1, user=world.user(f"u{number}"))
    card_hours.keep(NOW)
    assert DayUse.objects.count() == 20
    with CaptureQueriesContext(connection) as asked:
        use = of_ads(world)
    assert len(use.on_days) == 1
    assert len(use.by_users) == 20
    sums = [one["sql"] for one in asked if "card_s" in one["sql"]]
    assert len(sums) == 2
    assert all("GROUP BY" in sql for sql in sums)


def test_what_ended_just_now_is_not_kept_yet_and_counts_all_the_same(world: World) -> None:
    ended(world, NOW - timedelta(hours=2), 1.5)
    card_hours.keep(NOW)
    assert not DayUse.objects.exists()
    assert hours(world) == {"01-10": 1.5}
    card_hours.keep(NOW + timedelta(hours=1))
    assert DayUse.objects.count() == 1
    assert hours(world) == {"01-10": 1.5}


def test_another_time_zone_has_the_days_summed_up_anew(world: World, settings: Settings) -> None:
    ended(world, datetime(2030, 1, 8, 15, tzinfo=UTC), 2)
    card_hours.keep(NOW)
    settings.TIME_ZONE = "Asia/Shanghai"
    assert hours(world) == {"01-08": 1.0, "01-09": 1.0}  # the sums of other days are not looked at
    card_hours.keep(NOW)
    assert DayUseKept.objects.get().zone == "Asia/Shanghai"
    assert hours(world) == {"01-08": 1.0, "01-09": 1.0}


def test_of_two_who_sum_up_at_once_one_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(world, NOW - timedelta(hours=30), 1)
    spans = card_hours._spans
    card_hours._begin(timezone.get_default_timezone())  # both found the same beginning
    calls: list[int] = []

    def meanwhile(rows: Any) -> Any:
        found = list(spans(rows))
        if not calls:
            calls.append(1)
            card_hours.keep(NOW)
        return iter(found)

    monkeypatch.setattr(card_hours, "_spans", meanwhile)
    card_hours.keep(NOW)
    monkeypatch.undo()
    assert hours(world) == {"01-09": 1.0}


def test_nothing_is_kept_where_nothing_ended(world: World) -> None:
    card_hours.keep(NOW)
    assert not DayUseKept.objects.exists()
