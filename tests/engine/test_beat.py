"""The beat and a worker on machines whose clocks differ, and a worker that is away for long."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
import time_machine
from celery.contrib.testing.worker import start_worker
from celery.utils.imports import instantiate
from django.conf import settings
from django.utils import timezone

from cluster import hints
from jobs.engine.pacemaker import Pacemaker
from taiji_site.beat import Beat
from taiji_site.celery import app

HOUR = timedelta(hours=1)
ASKED = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}


def eventually(met: Callable[[], bool], within_s: float = 30.0) -> bool:
    """Say whether it comes to hold."""
    until = time.monotonic() + within_s
    while not met() and time.monotonic() < until:
        time.sleep(0.05)
    return met()


@pytest.fixture
def broker(valkey: str) -> Iterator[redis.Redis]:
    """Let Celery use the session's Valkey for one test, without a message in it."""
    before = app.conf.broker_url
    app.conf.broker_url = valkey.replace("unix", "redis+socket", 1)
    with redis.Redis.from_url(valkey) as client:
        client.flushall()
        yield client
        client.flushall()
    app.conf.broker_url = before


@pytest.fixture
def beat(broker: redis.Redis, tmp_path: Path) -> Iterator[Beat]:
    """Return the beat that the settings name, with what it is to ask for in them."""
    beat: Beat = instantiate(app.conf.beat_scheduler, app=app, schedule_filename=str(tmp_path / "beat"))
    yield beat
    beat.close()


def ask_for_what_is_due(beat: Beat) -> None:
    """Let the beat do all that is to be done now."""
    while beat.tick() == 0:
        pass


def asked(broker: redis.Redis) -> int:
    """Return how much waits for a worker."""
    return int(broker.llen("celery"))


@contextmanager
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Let a worker take what waits; give the names of what it did, which does nothing but be noted."""
    done: set[str] = set()

    def note(name: str) -> Callable[[], None]:
        return lambda: done.add(name)

    app.loader.import_default_modules()
    for name in ASKED:
        monkeypatch.setattr(app.tasks[name], "run", note(name))
    monkeypatch.setattr(Pacemaker, "look", lambda _: False)
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=30):
        yield done


@pytest.mark.parametrize("off", [-HOUR, HOUR], ids=["behind", "ahead"])
def test_a_worker_does_all_that_it_is_asked_for_by_whom_whose_clock_is_an_hour_off(
    beat: Beat, monkeypatch: pytest.MonkeyPatch, off: timedelta
) -> None:
    with time_machine.travel(timezone.now() + off):
        for entry in beat.schedule.values():
            beat.apply_entry(entry, producer=beat.producer)
    with worker(monkeypatch) as done:
        assert eventually(lambda: done == ASKED), ASKED - done


def test_a_web_server_s_request_for_a_pass_is_heard_whatever_its_clock_says(
    broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with time_machine.travel(timezone.now() - HOUR):
        hints._wake_pass()
    with worker(monkeypatch) as done:
        assert eventually(lambda: done == {"jobs.run_pass"})


def test_what_nobody_takes_is_not_asked_for_again_and_again(beat: Beat, broker: redis.Redis) -> None:
    for _ in range(2 * hints.UNTAKEN_AT_MOST):
        beat.apply_entry(beat.schedule["pass"], producer=beat.producer)
        broker.delete("taiji:pass-asked")
        hints._wake_pass()
    assert asked(broker) == hints.UNTAKEN_AT_MOST
    broker.ltrim("celery", 0, 9)  # a worker is back
    beat.apply_entry(beat.schedule["pass"], producer=beat.producer)
    assert asked(broker) == 11


def test_a_beat_whose_clock_is_put_back_goes_on_at_once(beat: Beat, broker: redis.Redis) -> None:
    no_crontab_is_near = datetime(2030, 1, 31, 8, 40, 5, tzinfo=UTC)
    with time_machine.travel(no_crontab_is_near, tick=False) as clock:
        ask_for_what_is_due(beat)
        clock.shift(10)
        ask_for_what_is_due(beat)
        before = asked(broker)
        clock.shift(-HOUR)
        ask_for_what_is_due(beat)
        assert asked(broker) == before
        clock.shift(10)
        ask_for_what_is_due(beat)
        assert asked(broker) == before + len({"pass", "brought-jobs", "look-ahead", "what-ifs"})
