"""Logs of what ended long ago are removed, and it is known when."""

import os
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from cluster import logs, old_logs
from cluster.models import Instance
from jobs import tasks
from tests.cluster.test_logs import put
from tests.cluster.words import Agent, launch, row
from tests.world import World

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def ended(
    world: World, days_ago: float, *, written_days_ago: float | None = None, gang: int = 1
) -> uuid.UUID:
    """Return an instance that ended so long ago and left a log."""
    pk = launch(world.host("h1", 1), gang)
    at = timezone.now() - DAY * days_ago
    Instance.objects.filter(pk=pk).update(phase="gone", gone_at=at)
    write(pk, days_ago if written_days_ago is None else written_days_ago)
    return pk


def write(pk: uuid.UUID, days_ago: float) -> None:
    logs.append(pk, 0, b"words\n")
    at = (timezone.now() - DAY * days_ago).timestamp()
    os.utime(logs.path_of(pk), (at, at))


def test_only_old_logs_of_what_is_gone_are_removed(world: World) -> None:
    old, young = ended(world, 40, gang=1), ended(world, 20, gang=2)
    late = ended(world, 40, written_days_ago=1, gang=3)
    running = launch(world.host("h1", 1), 4)
    write(running, 40)
    assert old_logs.remove(timezone.now() - 30 * DAY) == 1
    assert [logs.end_of(pk) for pk in (old, young, late, running)] == [0, 6, 6, 6]
    removed = [pk for pk in (old, young, late, running) if row(pk).log_removed_at]
    assert removed == [old]
    assert old_logs.remove(timezone.now() - 30 * DAY) == 0


def test_a_log_that_nobody_knows_any_more_goes_too(world: World) -> None:
    write(uuid.UUID(int=9), 40)
    assert old_logs.remove(timezone.now() - 30 * DAY) == 1
    assert logs.end_of(uuid.UUID(int=9)) == 0


def test_many_are_removed_chunk_by_chunk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_logs, "CHUNK", 2)
    pks = [ended(world, 40, gang=gang) for gang in range(5)]
    assert old_logs.remove(timezone.now() - 30 * DAY) == 5
    assert all(row(pk).log_removed_at for pk in pks)


def test_a_file_that_outlived_a_crash_goes_the_next_time_and_the_first_date_stays(world: World) -> None:
    pk = ended(world, 40)
    noted = timezone.now() - DAY
    Instance.objects.update(log_removed_at=noted)
    assert old_logs.remove(timezone.now() - 30 * DAY) == 1
    assert (logs.end_of(pk), row(pk).log_removed_at) == (0, noted)


@pytest.mark.parametrize(("days", "left"), [(0, 6), (30, 0), (60, 6)])
def test_the_setting_says_how_many_days_logs_are_kept(
    world: World, settings: Settings, days: int, left: int
) -> None:
    settings.LOG_DAYS = days
    pk = ended(world, 40)
    tasks.remove_old_logs()
    assert logs.end_of(pk) == left


def test_nothing_is_added_to_a_log_that_was_removed(world: World) -> None:
    agent = Agent(world.host("h1", 1))
    pk = ended(world, 40)
    old_logs.remove(timezone.now() - 30 * DAY)
    answer = put(agent, pk, b"more", 6)
    assert (answer.status_code, answer.json()["errors"][0]["code"], logs.end_of(pk)) == (410, "removed", 0)
