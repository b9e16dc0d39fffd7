"""What people do with a task, from every state of its life."""

from typing import Any

import pytest
from django.db import transaction

from cluster.models import Instance
from jobs import lifecycle, services
from jobs.engine import passes
from jobs.models import Claim, Task, TaskEvent
from jobs.states import MOVES, TERMINAL, State
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def task(world: World) -> Task:
    """Return a queued task that nothing keeps from starting."""
    world.business("ads", P40=16)
    world.host("h1")
    return world.task()


def in_state(world: World, task: Task, state: str) -> Task:
    """Bring the queued task to one of the states before its end."""
    if state == "held":
        return services.hold(task, task.user)
    if state != "queued":
        passes.run()
    if state in {"running", "stopping"}:
        world.host_says(task, "running")
        passes.run()
    task.refresh_from_db()
    if state == "stopping":
        services.stop(task, task.user)
    assert task.state == state
    return task


@pytest.mark.parametrize("state", ["queued", "held"])
def test_stopping_a_waiting_task_ends_it_at_once(world: World, task: Task, state: str) -> None:
    services.stop(in_state(world, task, state), task.user)
    assert task.state == "stopped"
    assert not Instance.objects.exists()


@pytest.mark.parametrize("state", ["starting", "running"])
def test_stopping_a_task_with_cards_waits_until_its_process_is_gone(
    world: World, task: Task, state: str
) -> None:
    services.stop(in_state(world, task, state), task.user)
    assert task.state == "stopping"
    passes.run()
    task.refresh_from_db()
    assert task.state == "stopping"
    world.host_says(task, "gone", exit_code=None, exit_signal=15, ended_by_itself=False)
    passes.run()
    task.refresh_from_db()
    assert task.state == "stopped"


def test_a_double_click_on_stop_writes_one_event(world: World, task: Task) -> None:
    in_state(world, task, "running")
    services.stop(task, task.user)
    services.stop(task, task.user)
    assert task.events.filter(new_state="stopping").count() == 1


def test_a_task_that_is_over_cannot_be_stopped_held_released_or_freed(task: Task) -> None:
    services.stop(task, task.user)
    for verb in (services.stop, services.hold, services.release, services.free):
        with pytest.raises(services.Conflict):
            verb(task, task.user)
    assert task.state == "stopped"


def test_a_held_task_does_not_start_until_it_is_released(world: World, task: Task) -> None:
    services.hold(task, task.user)
    passes.run()
    task.refresh_from_db()
    assert task.state == "held"
    services.release(task, task.user)
    passes.run()
    task.refresh_from_db()
    assert task.state == "starting"


def test_a_running_task_cannot_be_held(world: World, task: Task) -> None:
    in_state(world, task, "running")
    with pytest.raises(services.Conflict, match="running"):
        services.hold(task, task.user)


def test_stopping_a_task_gives_up_the_cards_that_were_held_for_it(world: World, task: Task) -> None:
    Claim.objects.create(task=task, gpu_type=world.gpu_type(), hosts={}, made_at=task.submitted_at)
    services.stop(task, task.user)
    assert not Claim.objects.exists()


def test_a_move_that_the_table_does_not_know_is_refused(task: Task) -> None:
    with pytest.raises(lifecycle.IllegalMove):
        lifecycle.move([task.pk], State.QUEUED, State.RUNNING, code="x")


def test_a_move_from_a_state_that_the_task_left_changes_nothing(task: Task) -> None:
    assert lifecycle.move([task.pk], State.HELD, State.QUEUED, code="release") == set()
    assert not TaskEvent.objects.exists()


def test_terminal_states_lead_nowhere_and_every_state_is_reached() -> None:
    assert {state.value for state in TERMINAL} == {"succeeded", "failed", "stopped", "evicted"}
    reached = set().union(*MOVES.values())
    assert reached | {State.BLOCKED} == set(State)


@pytest.mark.parametrize("state", ["queued", "held", "starting", "running", "stopping"])
def test_the_verbs_that_are_offered_are_the_ones_that_work(world: World, task: Task, state: str) -> None:
    in_state(world, task, state)
    verbs: dict[str, Any] = {
        "stop": services.stop,
        "hold": services.hold,
        "release": services.release,
        "free": services.free,
        "retry": services.retry,
    }
    offered = services.allowed(task)
    second_click = {"stopping": {"stop"}, "held": {"hold"}, "queued": {"release"}}.get(state, set())
    for name in sorted(verbs.keys() - offered - second_click):
        with pytest.raises(services.Conflict):
            verbs[name](task, task.user)
    for name in sorted(offered & verbs.keys()):
        with transaction.atomic():
            verbs[name](task, task.user)
            transaction.set_rollback(True)
