"""What is measured on cards, gathered by minutes of the platform's clock."""

import time
from collections.abc import Callable

import pytest

from cluster.agent import minutes
from cluster.agent.minutes import Minutes, Sample


class Clock:
    """The clock of this process, which a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that minutes go by."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.fixture
def measure(clock: Clock) -> Callable[..., None]:
    """Return what measures cards at a moment of the platform's clock, minute 5 beginning at 300."""

    def measure(at: float, **cards: Sample) -> None:
        clock.now = at + 700
        kept.take({int(name[1:]): sample for name, sample in cards.items()})

    kept = Minutes()
    kept.sent([], 300.0)  # the platform says that it is 300 when this process says 1000
    measure.kept = kept  # type: ignore[attr-defined]  # for the tests
    return measure


def kept_by(measure: Callable[..., None]) -> Minutes:
    """Return what keeps that which is measured."""
    found: Minutes = measure.kept  # type: ignore[attr-defined]  # set above
    return found


def test_a_minute_has_means_and_the_most_and_is_told_when_it_is_over(measure: Callable[..., None]) -> None:
    kept = kept_by(measure)
    measure(300, c0=Sample(use=10, memory_mib=100, temperature_c=50, power_w=100, ecc_corrected=1))
    measure(310, c0=Sample(use=20, memory_mib=300, temperature_c=70, power_w=300, ecc_corrected=4, outside=2))
    measure(359, c0=Sample(use=90, memory_mib=200, temperature_c=60, power_w=200, xids=(79, 13)))
    assert kept.report(9) == []
    measure(360, c0=Sample())
    assert kept.report(9) == [
        {
            "card": 0,
            "minute": 5,
            "use_mean": 40,
            "use_max": 90,
            "memory_mean_mib": 200,
            "memory_max_mib": 300,
            "temperature_max_c": 70,
            "power_mean_w": 200,
            "power_max_w": 300,
            "ecc_corrected": 4,
            "ecc_uncorrected": None,
            "outside": 2,
            "xids": [13, 79],
        }
    ]


def test_a_host_tells_of_a_minute_as_long_after_its_end_as_it_lags(
    measure: Callable[..., None], clock: Clock
) -> None:
    kept = kept_by(measure)
    measure(300, c0=Sample(use=1))
    measure(360, c0=Sample(use=2))
    clock.now = 360 + 39.9 + 700
    assert kept.report(9, lag_s=40) == []
    clock.now = 360 + 40 + 700
    assert [row["minute"] for row in kept.report(9, lag_s=40)] == [5]
    measure(420)
    assert [row["minute"] for row in kept.report(9, lag_s=40)] == [5]
    assert [row["minute"] for row in kept.report(9)] == [5, 6]


def test_what_nobody_knows_is_null_and_never_zero(measure: Callable[..., None]) -> None:
    measure(300, c0=Sample(use=None), c1=Sample(use=0))
    measure(360)
    assert [row["use_max"] for row in kept_by(measure).report(9)] == [None, 0]


def test_minutes_are_repeated_until_the_platform_has_them(measure: Callable[..., None]) -> None:
    kept = kept_by(measure)
    for at in (300, 360, 420, 480):
        measure(at, c0=Sample(use=at // 60))
    told = kept.report(2)
    assert [row["minute"] for row in told] == [5, 6]
    assert kept.report(2) == told
    kept.sent(told, 480.0)
    assert [row["minute"] for row in kept.report(2)] == [7]


def test_a_platform_that_is_away_for_long_gets_the_newest(
    measure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minutes, "ROWS_AT_MOST", 3)
    for at in range(300, 900, 60):
        measure(at, c0=Sample(use=1))
    assert [row["minute"] for row in kept_by(measure).report(99)] == [11, 12, 13]


def test_the_host_s_own_clock_does_not_matter_and_a_platform_that_was_never_heard_has_no_minutes(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Minutes()
    kept.take({0: Sample(use=1)})
    kept.sent([], 6000.0)
    for wall in (0.0, 9e9):  # it jumps
        monkeypatch.setattr(time, "time", lambda wall=wall: wall)
        kept.take({0: Sample(use=2)})
    clock.now += 60
    kept.take({})
    assert [(row["minute"], row["use_max"]) for row in kept.report(9)] == [(100, 2)]


def test_nonsense_that_a_card_says_is_cut_to_what_a_report_may_have(measure: Callable[..., None]) -> None:
    measure(300, c0=Sample(power_w=2**31, temperature_c=-40, ecc_corrected=2**40, xids=tuple(range(50))))
    measure(360)
    (row,) = kept_by(measure).report(9)
    assert (row["power_max_w"], row["temperature_max_c"], row["ecc_corrected"]) == (2**15 - 1, 0, 2**31 - 1)
    assert len(row["xids"]) == 8
