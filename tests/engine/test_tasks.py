"""What the beat asks for: each thing is a task of its own, so that none is left out because another failed."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from celery import current_app
from django.utils import timezone
from pytest_django import Settings

from cluster import host_events, inventory
from cluster.models import HostEvent, Instance
from jobs import tasks
from tests.cluster.words import launch
from tests.world import World

# What the tasks beside the pass do, one of each.
WORK = (
    "jobs.brought.adopt",
    "jobs.engine.forecasts.run",
    "cluster.old_logs.remove",
    "cluster.card_metrics.remove_old",
    "cluster.host_events.remove_old",
    "jobs.uploads.collect",
    "cluster.samples.take",
    "cluster.stuck.note",
    "cluster.host_mails.send_due",
    "quotas.card_hours.keep",
    "jobs.kept_answers.forget_old",
    "jobs.engine.pass_log.remove_old",
    "jobs.engine.what_ifs.remove_old",
    "jobs.engine.what_ifs.run_next",
)


def test_the_beat_asks_for_every_task_and_for_none_that_there_is_not(settings: Settings) -> None:
    asked = sorted(entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values())
    current_app.loader.import_default_modules()
    assert asked == sorted(name for name in current_app.tasks if name.startswith("jobs."))


def test_a_pass_finds_a_thread_whatever_of_the_others_hangs_and_however_often_it_is_asked_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, passed = threading.Event(), threading.Event()
    hung: list[str] = []

    def hang(*_: object) -> None:
        hung.append("")
        go_on.wait(60)

    for target in WORK:
        monkeypatch.setattr(target, hang)
    monkeypatch.setattr("jobs.use.held_cards", dict)
    monkeypatch.setattr("jobs.engine.passes.run", passed.set)
    settings.LOG_DAYS = 1
    asked = [entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()]
    others = [name for name in asked if name != settings.PASS_TASK]
    with ThreadPoolExecutor(settings.CELERY_WORKER_CONCURRENCY) as pool:
        try:
            for name in 3 * others:
                pool.submit(current_app.tasks[name])
            pool.submit(current_app.tasks[settings.PASS_TASK])
            assert passed.wait(60)
        finally:
            go_on.set()
    assert len(hung) == len(others) == len(WORK)


def test_a_task_that_failed_runs_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no disk")

    monkeypatch.setattr("jobs.uploads.collect", broken)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            tasks.collect_uploads()


def test_what_will_not_die_is_told_of_also_where_free_cards_cannot_be_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("cannot count")

    monkeypatch.setattr(inventory, "free_cards", broken)
    launch(world.host("h1", 1))
    Instance.objects.update(wanted=False, stop_asked_at=timezone.now() - timedelta(hours=1))
    with pytest.raises(RuntimeError):
        tasks.sample_free_cards()
    tasks.note_stuck_instances()
    assert HostEvent.objects.get().code == "will_not_die"


def test_a_clean_up_removes_what_its_name_says_alone(world: World, settings: Settings) -> None:
    settings.LOG_DAYS = settings.CARD_METRICS_DAYS = settings.HOST_EVENT_DAYS = 1
    host_events.note(world.host("h1", 1).pk, "back", at=timezone.now() - timedelta(days=2))
    tasks.remove_old_logs()
    tasks.remove_old_card_metrics()
    assert HostEvent.objects.exists()
    tasks.remove_old_host_events()
    assert not HostEvent.objects.exists()
