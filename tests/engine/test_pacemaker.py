"""Passes that nobody asked for: made where the last one is too old, and only there."""

import time
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from jobs.engine import pacemaker, passes, pulse
from jobs.engine.pacemaker import Pacemaker
from jobs.models import PassLease

PERIOD_S = 2


@pytest.fixture(autouse=True)
def _period(settings: Settings) -> None:
    settings.PASS_PERIOD_S = PERIOD_S


@pytest.mark.django_db
def test_a_pass_is_made_where_there_was_never_one_or_the_last_is_too_old() -> None:
    maker = Pacemaker()
    assert maker.look()
    assert not maker.look()
    PassLease.objects.update(finished_at=Now() - timedelta(seconds=PERIOD_S * pacemaker.PERIODS + 1))
    assert maker.look()
    age_s = pulse.look().age_s
    assert age_s is not None
    assert age_s < PERIOD_S


@pytest.mark.django_db
def test_while_the_beat_asks_in_time_nothing_is_made_unasked() -> None:
    passes.run()
    made: list[bool] = []
    maker = Pacemaker(run=lambda: made.append(True))
    PassLease.objects.update(finished_at=Now() - timedelta(seconds=PERIOD_S * 2))
    assert not maker.look()
    assert made == []


@pytest.mark.django_db(transaction=True)
def test_a_look_that_fails_does_not_end_the_looking(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PASS_PERIOD_S = 0.01
    looked: list[bool] = []

    def look() -> pulse.Pulse:
        looked.append(True)
        raise RuntimeError("the database is away")

    monkeypatch.setattr(pulse, "look", look)
    maker = Pacemaker()
    maker.start()
    until = time.monotonic() + 10
    while len(looked) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    maker.stop()
    maker.join()
    assert len(looked) >= 3
