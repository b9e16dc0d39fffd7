"""A weekly reservation over both changes of clocks, in the simulator, whatever zone the server stands in."""

import time as clock
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

import pytest

from jobs.simulation.figures import report
from jobs.simulation.simulate import Simulator
from jobs.simulation.workload import read_scenario
from quotas.windows import Rule, windows

NIGHT = Rule(kind="weekly", weekday=6, from_time=time(1, 30), to_time=time(3, 30), zone="America/New_York")
HOUR = 3600


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/New_York"], autouse=True)
def _server_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the server's clock stand in another zone."""
    monkeypatch.setenv("TZ", request.param)
    clock.tzset()
    yield
    monkeypatch.undo()
    clock.tzset()


@pytest.mark.parametrize(
    ("midnight", "begins_h", "lasts_h"),
    [
        (datetime(2025, 10, 26, tzinfo=UTC), 5.5, 2),  # an ordinary Sunday, still on summer time
        (datetime(2025, 11, 2, tzinfo=UTC), 5.5, 3),  # clocks show 01:00–02:00 twice
        (datetime(2026, 3, 8, tzinfo=UTC), 6.5, 1),  # clocks skip 02:00–03:00
    ],
)
def test_cards_are_kept_from_others_for_just_as_long_as_the_window_really_lasts(
    midnight: datetime, begins_h: float, lasts_h: float
) -> None:
    [(start, end)] = windows(NIGHT, midnight, midnight + timedelta(days=1))
    window = {"from_s": (start - midnight).total_seconds(), "to_s": (end - midnight).total_seconds()}
    high = {"business": "B", "class": "high", "gpu_type": "P40", "host_gpu_num": 8, "duration_s": 600}
    simulator = Simulator(
        read_scenario(
            {
                "hosts": [{"host": "h1", "gpu_type": "P40", "gpu_num": 8}],
                "quotas": [{"business": business, "gpu_type": "P40", "cards": 8} for business in "AB"],
                "events": [
                    {"at": 0, "reservation": {"business": "A", "gpu_type": "P40", "cards": 8, **window}},
                    {"at": 5 * HOUR, "submit": {"id": "before", "time_limit_s": 600, **high}},
                    {"at": begins_h * HOUR - 300, "submit": {"id": "into", "time_limit_s": 600, **high}},
                    {"at": begins_h * HOUR + 60, "submit": {"id": "in", **high}},
                ],
            }
        )
    )
    simulator.run()
    starts = {name: task["start_s"] for name, task in report(simulator)["tasks"].items()}
    over = (begins_h + lasts_h) * HOUR
    assert starts == {"before": 5 * HOUR, "into": over, "in": over + 600}


def test_the_windows_of_a_month_add_up_to_the_hours_that_passed() -> None:
    first, last = datetime(2025, 11, 1, tzinfo=UTC), datetime(2025, 12, 1, tzinfo=UTC)
    assert (
        sum((end - start).total_seconds() for start, end in windows(NIGHT, first, last)) == (3 + 4 * 2) * HOUR
    )
