"""The history of free cards."""

from datetime import UTC, datetime, timedelta

import pytest

from cluster import samples
from cluster.models import FreeCardSample
from tests.world import World

pytestmark = pytest.mark.django_db
NOW = datetime(2030, 1, 1, 8, 30, 42, tzinfo=UTC)


def test_a_minute_is_sampled_once_however_often_it_is_asked_for(world: World) -> None:
    world.host("h1", 8)
    world.host("h2", 4)
    world.host("h3", 4, "M40", "BJ")
    samples.take(NOW, {})
    samples.take(NOW + timedelta(seconds=10), {})
    rows = FreeCardSample.objects.order_by("region__name").values_list(
        "gpu_type__name", "free", "largest_block"
    )
    assert list(rows) == [("M40", 4, 4), ("P40", 12, 8)]
    assert FreeCardSample.objects.first().at == NOW.replace(second=0)  # type: ignore[union-attr]  # there are two


def test_old_samples_are_dropped(world: World) -> None:
    world.host("h1", 8)
    samples.take(NOW - timedelta(days=36), {})
    samples.take(NOW, {})
    assert FreeCardSample.objects.count() == 1
