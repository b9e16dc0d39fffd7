"""Estimated starts and places in the database: what is kept, what is read, and what is never shown."""

import subprocess
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from jobs.engine import ask, forecasts, foresight, passes
from jobs.models import Attempt, Forecast, Policy, Task, WaitingLine
from jobs.scheduling import types
from jobs.scheduling.types import Snapshot
from jobs.simulation.forecast import Basis
from jobs.simulation.lengths import Lengths
from quotas.models import UsageRow
from tests.world import World

pytestmark = pytest.mark.django_db


def seen(task: Task) -> forecasts.Outlook:
    task.refresh_from_db()
    found = forecasts.outlook(task)
    assert found is not None
    return found


def place(task: Task) -> tuple[int | None, int | None]:
    return seen(task).position, seen(task).of


def again() -> forecasts.Done | None:
    """Look ahead although the last look was just now."""
    Forecast.objects.update(next_at=timezone.now())
    return forecasts.run()


def elastic(world: World, **fields: Any) -> Task:
    return world.task("nlp", "ben", **{"cards": 8, "wanted_class": "elastic", **fields})


@pytest.fixture
def full(world: World) -> Task:
    """Return a task of half an hour's limit that runs since ten minutes on the only host."""
    world.business("ads", P40=8)
    world.host("h1")
    Policy.objects.create(pk=1, values={"elastic_order": "fifo"})
    task = elastic(world, time_limit_s=1800)
    passes.run()
    world.host_says(task, "running")
    Attempt.objects.update(created_at=timezone.now() - timedelta(minutes=10))
    passes.run()
    return task


def minutes(start: datetime | None) -> int:
    assert start is not None
    return round((start - timezone.now()).total_seconds() / 60)


def test_those_who_wait_start_one_after_the_other_as_limits_pass(world: World, full: Task) -> None:
    tasks = [elastic(world, time_limit_s=600), elastic(world)]
    forecasts.run()
    assert [minutes(seen(task).start) for task in tasks] == [20, 30]
    assert [seen(task).basis for task in tasks] == [Basis("limits", {"limits": n}) for n in (1, 2)]
    assert [place(task) for task in tasks] == [(1, 2), (2, 2)]


def test_without_limits_the_users_finished_tasks_say_how_long(world: World, full: Task) -> None:
    Task.objects.filter(pk=full.pk).update(time_limit_s=None)
    task = elastic(world)
    forecasts.run()
    assert (seen(task).start, seen(task).basis) == (None, Basis("unknown_task", {"task": full.pk}))
    for number, (hours, outcome) in enumerate([(1, "succeeded")] * 3 + [(9, "failed")] * 9):
        ran_for(full, number, hours, outcome)
    again()
    assert minutes(seen(task).start) == 50
    assert seen(task).basis == Basis("past", {"past": 1, "least": 3})


def ran_for(task: Task, number: int, hours: float, outcome: str) -> None:
    now = timezone.now()
    UsageRow.objects.create(
        attempt=10**6 + number, task=0, business_id=task.business_id, user_id=task.user_id,
        gpu_type_id=task.gpu_types[0],
        task_class="elastic", cards=8, started_at=now, ended_at=now, seconds=hours * 3600, outcome=outcome,
    )  # fmt: skip


def test_a_kept_place_ends_when_it_is_kept_until(world: World, full: Task) -> None:
    Task.objects.filter(pk=full.pk).update(state="keeping")
    Attempt.objects.update(keep_until=timezone.now() + timedelta(minutes=7))
    task = elastic(world)
    forecasts.run()
    assert minutes(seen(task).start) == 7


def test_places_are_those_of_the_pass_and_not_of_the_submissions(world: World, full: Task) -> None:
    world.business("ads", P40=8)
    running = world.task("ads", cards=8, priority=1, time_limit_s=60)
    tasks = [world.task("ads", cards=8, priority=priority) for priority in (0, 1, 2)]
    passes.run()
    forecasts.run()
    assert seen(running).position == 2, "it has a claim already, and stands where its priority puts it"
    assert [place(task) for task in tasks] == [(4, 4), (3, 4), (1, 4)]


def test_an_auto_task_stands_among_the_elastic_ones_and_other_types_do_not_count(
    world: World, full: Task
) -> None:
    world.gpu_type("M40")
    others = [world.task("ads"), elastic(world, gpu_types=["M40"])]
    tasks = [elastic(world), elastic(world, wanted_class="auto"), elastic(world)]
    forecasts.run()
    assert [place(task) for task in tasks] == [(1, 3), (2, 3), (3, 3)]
    assert [place(task) for task in others] == [(1, 1), (1, 1)]


def test_a_newcomer_stands_behind_those_whom_the_last_look_knew(world: World, full: Task) -> None:
    first = elastic(world)
    assert place(first) == (1, 1)
    forecasts.run()
    second, high, third = elastic(world), world.task("ads"), elastic(world)
    assert [place(task) for task in (first, second, third)] == [(1, 1), (2, 3), (3, 3)]
    assert place(high) == (1, 1)
    assert (seen(third).start, seen(third).basis) == (None, None)


def test_who_was_released_since_has_no_place_until_the_next_look(world: World, full: Task) -> None:
    held, task = elastic(world, state="held"), elastic(world)
    forecasts.run()
    assert (forecasts.outlook(held), place(task)) == (None, (1, 1))
    Task.objects.filter(pk=held.pk).update(state="queued")
    assert seen(held) == forecasts.Outlook()
    again()
    assert place(held) == (1, 2)


def test_a_task_behind_a_gate_with_a_time_has_a_start_and_no_place(world: World, full: Task) -> None:
    task = elastic(world, ready_at=timezone.now() + timedelta(hours=2))
    forecasts.run()
    assert (place(task), minutes(seen(task).start)) == ((None, None), 120)
    assert seen(task).basis == Basis("limits", {"limits": 1})


def test_a_start_that_was_foreseen_for_a_moment_now_over_is_due_now(world: World, full: Task) -> None:
    task = elastic(world)
    forecasts.run()
    WaitingLine.objects.update(made_at=timezone.now() - timedelta(minutes=14), starts=b"\1\0\0\0")
    assert minutes(seen(task).start) == 0


def test_an_old_record_is_not_shown(world: World, full: Task) -> None:
    elastic(world)
    task = elastic(world)
    forecasts.run()
    old = timezone.now() - timedelta(minutes=16)
    WaitingLine.objects.update(made_at=old)
    Forecast.objects.update(made_at=old)
    assert (place(task), seen(task).start, seen(task).basis) == ((2, 2), None, None)


@pytest.mark.parametrize("state", ["starting", "running", "held", "succeeded"])
def test_who_does_not_wait_for_cards_has_no_outlook(world: World, full: Task, state: str) -> None:
    task = elastic(world)
    forecasts.run()
    task.state = state
    assert forecasts.outlook(task) is None


def test_a_look_rests_after_the_last_one_and_only_one_looks_at_a_time(world: World, full: Task) -> None:
    elastic(world)
    done = forecasts.run()
    assert done is not None
    assert (done.waiting, done.passes > 0) == (1, True)
    assert forecasts.run() is None
    assert Forecast.objects.get().next_at > timezone.now() + timedelta(seconds=forecasts.LEAST_REST_S - 5)


def test_without_waiting_tasks_nothing_is_kept(world: World, full: Task) -> None:
    task = elastic(world)
    forecasts.run()
    assert WaitingLine.objects.count() == 1
    Task.objects.filter(pk=task.pk).update(state="stopped")
    assert again() is None
    assert not WaitingLine.objects.exists()


def test_a_look_that_fails_leaves_what_was_seen_before(
    world: World, full: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    task = elastic(world)
    forecasts.run()

    def fails(*_: object) -> None:
        raise foresight.Failed("it was killed")

    monkeypatch.setattr(foresight, "look", fails)
    assert again() is None
    assert minutes(seen(task).start) == 20
    assert "no estimates of starts this time" in caplog.text
    assert Forecast.objects.get().next_at > timezone.now()


@pytest.mark.parametrize("answer", [b"", b"no pickle"])
def test_a_look_whose_process_answers_something_else_has_failed(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess(["look"], 0, stdout=answer)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(foresight.Failed):
        foresight.look(Snapshot(now=0.0), types.Policy(), Lengths(), 1.0)


def test_an_id_is_found_only_where_it_begins() -> None:
    ids = [1 << 8, 1, 1 << 16, 7]
    packed = b"".join(number.to_bytes(8, "little") for number in ids)
    assert [forecasts._find(packed, number) for number in ids] == [0, 1, 2, 3]
    assert forecasts._find(packed, 2) is None
    assert forecasts._find(packed, 1 << 40) is None


def test_an_outlook_costs_one_query_and_a_newcomers_three(
    world: World, full: Task, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    task = elastic(world)
    forecasts.run()
    newcomer = elastic(world)
    with django_assert_num_queries(1):
        forecasts.outlook(task)
    with django_assert_num_queries(3):
        forecasts.outlook(newcomer)


@pytest.mark.parametrize("small", [True, False])
def test_a_preview_estimates_the_start(
    world: World, full: Task, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ben = world.user("ben", "nlp")
    elastic(world, time_limit_s=600)
    forecasts.run()
    if not small:
        monkeypatch.setattr(ask, "SMALL", 0)
    document = {"business_flag": "nlp", "start_cmd": "true", "GPUName": "P40", "is_elasticity": True}
    said = ask.preview(ben, document | {"host_gpu_num": 8})
    assert (said.verdict, said.position) == ("queues", 2)
    assert minutes(said.estimated_start) == (30 if small else 20)
    assert said.estimate_basis
    assert said.estimate_basis.code == ("limits" if small else "peers")


def test_a_preview_among_many_without_its_like_knows_no_start(
    world: World, full: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    elastic(world, cards=4)
    forecasts.run()
    monkeypatch.setattr(ask, "SMALL", 0)
    document = {"business_flag": "nlp", "start_cmd": "true", "GPUName": "P40", "is_elasticity": True}
    said = ask.preview(world.user("ben", "nlp"), document | {"host_gpu_num": 8})
    assert (said.position, said.estimated_start, said.estimate_basis) == (2, None, None)


def test_a_preview_behind_an_unknown_length_says_so(world: World, full: Task) -> None:
    Task.objects.filter(pk=full.pk).update(time_limit_s=None)
    document = {"business_flag": "nlp", "start_cmd": "true", "GPUName": "P40", "is_elasticity": True}
    said = ask.preview(world.user("ben", "nlp"), document | {"host_gpu_num": 8})
    assert said.estimated_start is None
    assert said.estimate_basis
    assert (
        said.estimate_basis.message
        == f"unknown: task {full.pk} before it has no time limit, and too few tasks of its user have ended to go by"
    )


def test_a_newcomer_counts_the_auto_tasks_of_its_line(world: World, full: Task) -> None:
    elastic(world)
    forecasts.run()
    tasks = [elastic(world, wanted_class="auto"), elastic(world)]
    assert [place(task) for task in tasks] == [(2, 3), (3, 3)]


def test_who_came_back_since_the_last_look_has_no_place_yet(world: World, full: Task) -> None:
    elastic(world)
    forecasts.run()
    Task.objects.filter(pk=full.pk).update(state="queued")
    assert seen(full) == forecasts.Outlook()


def test_a_look_that_takes_long_rests_longer(
    world: World, full: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    elastic(world)
    monkeypatch.setattr(forecasts, "REST", 10**6)
    forecasts.run()
    assert Forecast.objects.get().next_at > timezone.now() + timedelta(minutes=5)


def test_nobody_else_looks_meanwhile(world: World, full: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    elastic(world)
    look, others = foresight.look, []

    def looks(*given: Any) -> Any:
        monkeypatch.setattr(foresight, "look", look)
        others.append(forecasts.run())
        return look(*given)

    monkeypatch.setattr(foresight, "look", looks)
    assert forecasts.run() is not None
    assert others == [None]


def test_only_what_ended_lately_says_how_long_others_take(
    world: World, full: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    Task.objects.filter(pk=full.pk).update(time_limit_s=None)
    task = elastic(world)
    for number in range(6):
        ran_for(full, number, 1 if number < 3 else 9, "succeeded")
    UsageRow.objects.filter(seconds__gt=3600).update(ended_at=timezone.now() - timedelta(days=1))
    monkeypatch.setattr(forecasts, "MOST_FINISHED", 3)
    forecasts.run()
    assert minutes(seen(task).start) == 50
    UsageRow.objects.update(ended_at=timezone.now() - timedelta(days=31))
    again()
    assert seen(task).basis == Basis("unknown_task", {"task": full.pk})


@pytest.mark.parametrize(("old", "basis"), [(False, "peers"), (True, None)])
def test_a_preview_among_many_trusts_no_held_peer_and_no_old_record(
    world: World, full: Task, old: bool, basis: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    elastic(world, time_limit_s=600)
    elastic(world, state="held")
    forecasts.run()
    if old:
        WaitingLine.objects.update(made_at=timezone.now() - timedelta(minutes=16))
    monkeypatch.setattr(ask, "SMALL", 0)
    document = {"business_flag": "nlp", "start_cmd": "true", "GPUName": "P40", "is_elasticity": True}
    said = ask.preview(world.user("ben", "nlp"), document | {"host_gpu_num": 8})
    assert (said.estimate_basis and said.estimate_basis.code) == basis
