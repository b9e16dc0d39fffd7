"""When reservations hold."""

from datetime import UTC, datetime, time, timedelta

import pytest

from quotas.windows import Rule, overlap, windows

SUNDAY = 6
NIGHT = Rule(
    kind="weekly", weekday=SUNDAY, from_time=time(1, 30), to_time=time(3, 30), zone="America/New_York"
)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]  # year, month, day, hour, minute


def hours(day: datetime) -> list[float]:
    found = windows(NIGHT, day, day + timedelta(days=1))
    return [(end - start).total_seconds() / 3600 for start, end in found]


@pytest.mark.parametrize(
    ("day", "length"),
    [
        (utc(2025, 10, 26), 2),  # an ordinary Sunday
        (utc(2025, 11, 2), 3),  # clocks show 01:00–02:00 twice
        (utc(2026, 3, 8), 1),  # clocks skip 02:00–03:00
    ],
)
def test_a_weekly_window_comes_once_and_lasts_what_really_passes(day: datetime, length: float) -> None:
    assert hours(day) == [length]


def test_a_weekly_window_stays_at_its_local_time_over_the_change_of_clocks() -> None:
    starts = [start for start, _ in windows(NIGHT, utc(2025, 10, 20), utc(2025, 11, 15))]
    assert starts == [utc(2025, 10, 26, 5, 30), utc(2025, 11, 2, 5, 30), utc(2025, 11, 9, 6, 30)]


def test_a_start_in_the_hour_that_clocks_skip_still_comes_once() -> None:
    skipped = Rule(
        kind="weekly", weekday=SUNDAY, from_time=time(2, 30), to_time=time(4), zone="America/New_York"
    )
    assert windows(skipped, utc(2026, 3, 8), utc(2026, 3, 9)) == [
        (utc(2026, 3, 8, 7, 30), utc(2026, 3, 8, 8))
    ]


def test_a_window_over_midnight_ends_on_the_next_day() -> None:
    late = Rule(kind="weekly", weekday=0, from_time=time(22), to_time=time(6), zone="Asia/Shanghai")
    assert windows(late, utc(2026, 1, 5), utc(2026, 1, 6)) == [(utc(2026, 1, 5, 14), utc(2026, 1, 5, 22))]


def test_a_window_that_began_before_is_told_whole() -> None:
    late = Rule(kind="weekly", weekday=0, from_time=time(22), to_time=time(6), zone="UTC")
    assert windows(late, utc(2026, 1, 6, 3), utc(2026, 1, 6, 4)) == [
        (utc(2026, 1, 5, 22), utc(2026, 1, 6, 6))
    ]


def test_first_and_last_day_bound_a_weekly_one() -> None:
    bounded = Rule(
        kind="weekly",
        weekday=0,
        from_time=time(8),
        to_time=time(18),
        starts_at=utc(2026, 1, 12, 10),
        ends_at=utc(2026, 1, 19, 9),
    )
    assert windows(bounded, utc(2026, 1, 1), utc(2026, 2, 1)) == [
        (utc(2026, 1, 12, 10), utc(2026, 1, 12, 18)),
        (utc(2026, 1, 19, 8), utc(2026, 1, 19, 9)),
    ]


def test_a_standing_one_holds_always() -> None:
    assert len(windows(Rule(kind="standing"), utc(2026, 1, 1), utc(2026, 1, 2))) == 1


@pytest.mark.parametrize(
    ("day", "until"),
    [(utc(2025, 10, 26), (7, 30)), (utc(2025, 11, 2), (8, 30)), (utc(2026, 3, 8), (7, 30))],
)
def test_an_overlap_is_found_in_every_week(day: datetime, until: tuple[int, int]) -> None:
    timed = Rule(
        kind="once", starts_at=day + timedelta(hours=7, minutes=15), ends_at=day + timedelta(hours=9)
    )
    hour, minute = until
    expected = (day + timedelta(hours=7, minutes=15), day + timedelta(hours=hour, minutes=minute))
    assert overlap(NIGHT, timed, day, day + timedelta(days=1)) == expected


def test_windows_that_only_touch_do_not_overlap() -> None:
    after = Rule(kind="once", starts_at=utc(2025, 10, 26, 7, 30), ends_at=utc(2025, 10, 26, 9))
    assert overlap(NIGHT, after, utc(2025, 10, 26), utc(2025, 10, 27)) is None
