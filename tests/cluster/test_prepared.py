"""Queries whose SQL is written once: what they return is what Django's own would."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cluster.models import GpuType, Host
from cluster.prepared import Prepared
from tests.world import World

pytestmark = pytest.mark.django_db


def test_it_returns_rows_for_the_values_of_each_asking(world: World) -> None:
    named = Prepared(lambda name: GpuType.objects.filter(name=name).values_list("id", "name"), str)
    first, second = world.gpu_type("P40"), world.gpu_type("it's 100%s")
    assert named.ask("P40") == [(first.pk, "P40")]
    assert named.ask("it's 100%s") == [(second.pk, "it's 100%s")]
    assert named.ask("mark-of-the-value-0") == []


def test_values_go_where_they_belong_and_what_is_fixed_stays(world: World) -> None:
    host = world.host("h1")
    known = Prepared(
        lambda pk, name: Host.objects.filter(name=name, state="ready", region=pk).values_list("name"),
        int,
        str,
    )
    assert known.ask(host.region_id, "h1") == [("h1",)]
    assert known.ask(host.region_id + 1, "h1") == []
    Host.objects.update(state="cordoned")
    assert known.ask(host.region_id, "h1") == []


def test_times_and_truth_come_as_django_has_them(world: World) -> None:
    at = datetime(2030, 1, 31, 8, tzinfo=UTC)
    Host.objects.filter(pk=world.host("h1").pk).update(last_seen_at=at)
    seen = Prepared(
        lambda name: Host.objects.filter(name=name).values_list(
            "last_seen_at", "lost_since", "clock_offset_s"
        ),
        str,
    )
    assert seen.ask("h1") == [(at, None, 0.0)]


def test_its_sql_is_written_once(world: World) -> None:
    made: list[str] = []

    def make(name: str) -> "object":
        made.append(name)
        return GpuType.objects.filter(name=name).values_list("id")

    named = Prepared(make, str)  # type: ignore[arg-type]  # its rows are not what this is about
    with CaptureQueriesContext(connection) as queries:
        for name in ("a", "b", "c"):
            named.ask(name)
    assert (len(made), len(queries)) == (1, 3)


def test_a_value_that_is_not_compared_as_it_is_is_a_fault_of_the_program() -> None:
    vague = Prepared(lambda name: GpuType.objects.filter(name__contains=name).values_list("id"), str)
    with pytest.raises(ValueError, match="not compared as it is"):
        vague.ask("P40")
