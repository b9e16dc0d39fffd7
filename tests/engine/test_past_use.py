"""What elastic attempts used before now: a kept sum and the rows since say the same as all rows together."""

from datetime import UTC, datetime
from itertools import count

import pytest

from jobs.engine import lease, past_use
from jobs.models import PastUse
from quotas.models import UsageRow
from tests.world import World

pytestmark = pytest.mark.django_db

HOUR_S, DAY_S = 3600.0, 86400.0
WEEK_S = 7 * DAY_S
NOW = 1_900_000_000.0
ATTEMPTS = count(1)


def ended(world: World, ago_s: float, card_s: float, user: str = "ann", task_class: str = "elastic") -> None:
    """Enter an attempt of two cards that ended so long before NOW and used so many card-seconds."""
    at = datetime.fromtimestamp(NOW - ago_s, UTC)
    UsageRow.objects.create(
        attempt=next(ATTEMPTS), task=1, business=world.business("ads"), user=world.user(user, "ads"),
        gpu_type=world.gpu_type(), task_class=task_class, cards=2, started_at=at, ended_at=at,
        seconds=card_s / 2, outcome="succeeded",
    )  # fmt: skip


def used(world: World, now: float = NOW, half_life_s: float = WEEK_S) -> dict[str, float]:
    """Return the decayed card-seconds by user."""
    names = {world.user(name, "ads").pk: name for name in ("ann", "ben")}
    return {names[row.user]: row.card_s for row in past_use.read(now, half_life_s)}


def keep(now: float = NOW, half_life_s: float = WEEK_S) -> datetime:
    """Move the kept sum up, as a pass does, and return until when it sums up."""
    fence = lease.take("test", 0)
    assert fence is not None
    past_use.keep(now, half_life_s, fence)
    lease.let_go(fence)
    return PastUse.objects.get().through


@pytest.fixture
def history(world: World) -> World:
    """Return a world with attempts that ended minutes to weeks ago."""
    for ago_s in (60.0, HOUR_S - 1, HOUR_S + 1, DAY_S, WEEK_S, 5 * WEEK_S):
        ended(world, ago_s, 1000.0)
        ended(world, ago_s * 1.5, 500.0, "ben")
        ended(world, ago_s, 9e9, "ben", task_class="high")
    return world


def test_use_halves_with_each_half_life(world: World) -> None:
    for ago_s in (0.0, WEEK_S, 2 * WEEK_S):
        ended(world, ago_s, 100.0)
    assert used(world) == {"ann": pytest.approx(100 + 50 + 25)}


def test_a_kept_sum_changes_nothing_of_what_is_read(history: World) -> None:
    before = used(history)
    keep()
    assert PastUse.objects.get().sums
    assert used(history) == pytest.approx(before, rel=1e-9)


def test_what_ended_since_the_sum_was_kept_is_added_and_the_rest_decays_on(history: World) -> None:
    keep()
    ended(history, -2 * HOUR_S, 700.0)
    kept = used(history, now=NOW + DAY_S)
    PastUse.objects.all().delete()
    assert kept == pytest.approx(used(history, now=NOW + DAY_S), rel=1e-9)


def test_a_sum_that_is_moved_up_again_and_again_stays_right(history: World) -> None:
    for hour in range(0, 100, 3):
        ended(history, -hour * HOUR_S, 100.0)
        keep(NOW + hour * HOUR_S)
    later = NOW + 100 * HOUR_S
    kept = used(history, now=later)
    PastUse.objects.all().delete()
    assert kept == pytest.approx(used(history, now=later), rel=1e-9)


def test_another_half_life_of_the_policy_holds_at_once(history: World) -> None:
    shorter = used(history, half_life_s=DAY_S)
    keep(half_life_s=WEEK_S)
    assert used(history, half_life_s=DAY_S) == pytest.approx(shorter, rel=1e-9)
    keep(half_life_s=DAY_S)
    assert used(history, half_life_s=DAY_S) == pytest.approx(shorter, rel=1e-9)


def test_rows_of_the_last_hour_are_not_yet_summed_up_for_good(history: World) -> None:
    keep()
    ended(history, HOUR_S - 10, 300.0)  # its transaction took long
    late = used(history)
    PastUse.objects.all().delete()
    assert late == pytest.approx(used(history), rel=1e-9)


def test_the_sum_is_moved_up_each_hour_and_not_at_every_pass(history: World) -> None:
    first = keep()
    assert keep(NOW + HOUR_S - 60) == first
    assert keep(NOW + HOUR_S + 60) > first


def test_a_sum_that_a_clock_ahead_kept_is_not_read(history: World) -> None:
    ended(history, -2 * HOUR_S, 700.0)
    keep(NOW + 5 * HOUR_S)
    read = used(history)
    PastUse.objects.all().delete()
    assert read == pytest.approx(used(history), rel=1e-9)


def test_who_used_next_to_nothing_is_forgotten(history: World) -> None:
    ended(history, DAY_S, 0.001, "carl")
    keep()
    assert {user for _, user, _ in PastUse.objects.get().sums} == {
        history.user(name, "ads").pk for name in ("ann", "ben")
    }


def test_a_half_life_longer_than_the_calendar_forgets_nothing(history: World) -> None:
    assert used(history, half_life_s=1e12) == pytest.approx({"ann": 6000.0, "ben": 3000.0}, rel=1e-3)


def test_only_the_holder_of_the_pass_keeps_a_sum(history: World) -> None:
    with pytest.raises(lease.StaleHolder):
        past_use.keep(NOW, WEEK_S, 99)
    assert not PastUse.objects.exists()
