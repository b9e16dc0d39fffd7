"""Events of hosts are kept for a while, and what is asked of them needs no look at all of them."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from cluster import host_events
from cluster.models import HostEvent
from jobs import tasks
from tests.world import World


@pytest.mark.parametrize(("days", "left"), [(0, ["a", "b", "c"]), (90, ["b", "c"]), (1, ["c"])])
def test_the_setting_says_how_many_days_events_are_kept(
    world: World, settings: Settings, days: int, left: list[str]
) -> None:
    settings.HOST_EVENT_DAYS = days
    host, now = world.host("h1", 1), timezone.now()
    for code, age in (("a", 91), ("b", 89), ("c", 0)):
        host_events.note(host.pk, code, at=now - timedelta(days=age))
    tasks.remove_old_host_events()
    assert list(HostEvent.objects.order_by("id").values_list("code", flat=True)) == left


def test_whether_an_event_was_noted_lately_is_found_without_reading_all_of_its_host(world: World) -> None:
    host, now = world.host("h1", 1), timezone.now()
    lately = HostEvent.objects.filter(host=host, code="a", args={}, at__gt=now - host_events.ONCE_IN)
    if connection.vendor == "sqlite":
        assert "host_event_by_code" in lately.explain()
