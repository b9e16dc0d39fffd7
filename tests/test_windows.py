"""When reservations hold."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise

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


def on(weekday: int, begin: time, end: time, zone: str = "America/New_York") -> Rule:
    return Rule(kind="weekly", weekday=weekday, from_time=begin, to_time=end, zone=zone)


SKIPS = utc(2026, 3, 8)  # a Sunday: at 07:00 UTC the clocks of New York go from 02:00 to 03:00
TWICE = utc(2025, 11, 2)  # a Sunday: at 06:00 UTC they go from 02:00 back to 01:00


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (time(2, 30), time(4), [((7, 0), (8, 0))]),  # from the skip on
        (time(1), time(2, 30), [((6, 0), (7, 0))]),  # until the skip
        (time(2, 30), time(3, 15), [((7, 0), (7, 15))]),
        (time(2, 15), time(2, 45), []),  # no clock shows any of it
        (time(2), time(3), []),
    ],
)
def test_what_clocks_skip_of_a_window_is_left_out(
    begin: time, end: time, found: list[tuple[tuple[int, int], tuple[int, int]]]
) -> None:
    said = windows(on(SUNDAY, begin, end), SKIPS, SKIPS + timedelta(days=1))
    assert said == [(utc(2026, 3, 8, *one), utc(2026, 3, 8, *other)) for one, other in found]


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (time(1, 15), time(1, 45), ((5, 15), (5, 45))),  # the first time they show it
        (time(0, 30), time(1, 30), ((4, 30), (5, 30))),
        (time(1, 30), time(2, 30), ((5, 30), (7, 30))),  # two hours pass
    ],
)
def test_of_times_that_come_twice_a_window_means_the_first(
    begin: time, end: time, found: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    said = windows(on(SUNDAY, begin, end), TWICE, TWICE + timedelta(days=1))
    assert said == [(utc(2025, 11, 2, *found[0]), utc(2025, 11, 2, *found[1]))]


@pytest.mark.parametrize(
    ("day", "begin", "hours"),
    [
        (utc(2026, 3, 1), time(2), 24),  # an ordinary Sunday
        (SKIPS, time(1), 23),
        (SKIPS, time(2), 23),  # from 03:00, when the clocks jump over 02:00
        (TWICE, time(1, 30), 25),
        (TWICE, time(2), 24),
    ],
)
def test_from_one_time_to_the_same_is_a_whole_day_of_the_clocks(
    day: datetime, begin: time, hours: int
) -> None:
    (start, end), *others = windows(
        on(SUNDAY, begin, begin), day + timedelta(hours=8), day + timedelta(hours=9)
    )
    assert end - start == timedelta(hours=hours)
    assert others == []


@pytest.mark.parametrize("day", [SKIPS, TWICE])
@pytest.mark.parametrize("clock", [time(0), time(1), time(1, 30), time(2), time(2, 30), time(3)])
def test_seven_whole_days_leave_no_gap_and_do_not_overlap(day: datetime, clock: time) -> None:
    rules = [on(weekday, clock, clock) for weekday in range(7)]
    since, until = day - timedelta(days=3), day + timedelta(days=3)
    found = sorted(window for rule in rules for window in windows(rule, since, until))
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert found[0][0] <= since
    assert found[-1][1] >= until


def test_windows_that_meet_by_the_clocks_meet_also_when_those_change() -> None:
    for clock in (time(1), time(1, 30), time(2), time(2, 30), time(3)):
        before, after = on(SUNDAY, time(0, 15), clock), on(SUNDAY, clock, time(5))
        for day in (SKIPS, TWICE):
            assert overlap(before, after, day, day + timedelta(days=1)) is None


def test_a_skip_of_half_an_hour_is_found_too() -> None:
    rule = on(SUNDAY, time(2, 10), time(3), zone="Australia/Lord_Howe")
    found = windows(rule, utc(2026, 10, 3, 12), utc(2026, 10, 4, 12))
    assert found == [(utc(2026, 10, 3, 15, 30), utc(2026, 10, 3, 16))]


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
