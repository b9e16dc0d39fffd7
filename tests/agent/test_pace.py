"""A thousand agents call one after the other, whatever happened to all of them at once."""

import random
from collections import Counter

import pytest

from cluster.agent import pace
from cluster.agent.protocol import WAIT_S

HOSTS = [f"gpu-{number}" for number in range(1000)]


@pytest.fixture(autouse=True)
def _chance() -> None:
    """Have the same chance in each run."""
    random.seed(1)


def test_hosts_tell_of_a_minute_all_over_the_time_until_the_platform_has_to_have_it() -> None:
    lags = [pace.lag_s(name) for name in HOSTS]
    assert 0 <= min(lags) < max(lags) <= 60 - WAIT_S
    assert max(Counter(lags).values()) < 50  # in any second


def test_a_host_tells_at_the_same_moment_of_each_minute_after_any_restart() -> None:
    assert [pace.lag_s("h1"), pace.lag_s("h2")] == [40, 3]


def test_hosts_that_were_started_at_once_do_not_call_at_once_from_the_second_time_on() -> None:
    first = [pace.wait_s(first=True) for _ in HOSTS]
    assert WAIT_S / 4 <= min(first) <= max(first) <= WAIT_S
    assert max(Counter(round(wait_s) for wait_s in first).values()) < 120
    # They stay where that has put them: the same for all from then on.
    assert {pace.wait_s(first=False) for _ in HOSTS} == {WAIT_S}


def test_a_platform_that_stays_away_is_called_again_ever_later_and_by_each_host_at_another_moment() -> None:
    soon, late = [pace.retry_s(0) for _ in HOSTS], [pace.retry_s(50) for _ in HOSTS]
    assert 0.1 <= min(soon) < 0.11 < 0.19 < max(soon) <= 0.2
    assert 2.5 <= min(late) < 2.6 < 4.9 < max(late) <= 5
