"""How attempts end: one code for each cause, a sentence for people, and what can be done about it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone, translation

from cluster.agent import protocol
from cluster.models import Card, CardLease, Host
from jobs import endings
from jobs.models import Task
from tests.engine.started import after_pass, start
from tests.world import World


def end_of(task: Task) -> tuple[str, str]:
    attempt = task.attempts.latest("number")
    return attempt.outcome_code, endings.sentence(attempt.outcome_code, attempt.outcome_args)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        ({"exit_code": 3}, "exit_code", "The process on {host} ended with exit code 3"),
        ({"exit_signal": 11}, "exit_signal", "The process on {host} was ended by signal 11"),
        (
            {"exit_signal": 9, "cause": "oom"},
            "out_of_memory",
            "The process on {host} was ended because the memory of the host ran out",
        ),
        (
            {"exit_code": 137, "cause": "maybe_oom"},
            "maybe_out_of_memory",
            "The process on {host} was killed, probably because the memory of the host ran out",
        ),
        ({"detail": "No shell."}, "start_failed", "It could not be started on {host}: No shell."),
        (
            {"detail": "No such image.", "cause": "image"},
            "image_failed",
            "Its image could not be brought to {host}: No such image.",
        ),
        ({"detail": "x", "cause": "code"}, "code_failed", "Its code could not be brought to {host}: x"),
        ({"detail": "x", "cause": "data"}, "data_failed", "Its data could not be brought to {host}: x"),
        ({"detail": "x", "cause": "code_away"}, "code_failed", "Its code could not be brought to {host}: x"),
        ({"detail": "x", "cause": "data_away"}, "data_failed", "Its data could not be brought to {host}: x"),
        (
            {"detail": "x", "cause": "place"},
            "no_place",
            "Its cluster found no place for its pod on {host}: x",
        ),
        ({"exit_code": 1, "cause": "card"}, "card_fault", "A card failed under the process on {host}"),
        ({"detail": protocol.HOST_RESTARTED}, "host_restarted", "Its host {host} was restarted"),
    ],
)
def test_what_the_host_said_becomes_a_code_and_a_sentence(
    world: World, said: dict[str, Any], code: str, sentence: str
) -> None:
    task = start(world)
    host = CardLease.objects.get().card.host.name
    world.host_says(task, "gone", **{"exit_code": None, **said})
    assert after_pass(task).state == "failed"
    assert end_of(task) == (code, sentence.format(host=host))


@pytest.mark.django_db
def test_a_process_that_failed_on_a_card_that_broke_is_not_blamed(world: World) -> None:
    task = start(world, retry_limit=1)
    card = CardLease.objects.get().card
    Card.objects.filter(pk=card.pk).update(state="broken", state_reason="XID 79")
    world.host_says(task, "gone", exit_code=1)
    assert after_pass(task).state == "queued"
    assert end_of(task) == (
        "card_fault",
        f"A card failed under the process on {card.host.name}: card {card.index}: XID 79",
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({}, "succeeded"),
        ({"exit_code": None, "exit_signal": 15, "ended_by_itself": False}, "exit_signal"),
    ],
)
def test_a_broken_card_is_no_reason_for_one_that_ended_well_or_was_told_to_end(
    world: World, said: dict[str, Any], code: str
) -> None:
    task = start(world)
    Card.objects.update(state="broken")
    world.host_says(task, "gone", **said)
    assert end_of(after_pass(task))[0] == code


@pytest.mark.django_db
def test_of_a_gang_the_member_that_failed_first_is_named(world: World) -> None:
    task = start(world, hosts=2, cards=1, config={"exec_start_in_all_mpi_pods": True})
    now = timezone.now()
    world.host_says(task, "gone", 0, exit_code=1, gone_at=now)
    world.host_says(task, "gone", 1, exit_code=7, gone_at=now - timedelta(seconds=2))
    assert after_pass(task).state == "failed"
    second = Host.objects.get(instances__rank=1).name
    assert end_of(task) == (
        "exit_code",
        f"Rank 1 of a gang of 2: The process on {second} ended with exit code 7",
    )


@pytest.mark.django_db
def test_a_place_is_not_kept_where_nothing_ever_ran(world: World) -> None:
    task = start(world, keep_alive=True)
    world.host_says(task, "gone", exit_code=None, detail="No such image.", cause="image")
    assert after_pass(task).state == "failed"
    assert not CardLease.objects.filter(released_at=None).exists()


def test_every_cause_that_a_host_may_name_has_its_code() -> None:
    assert endings.CAUSED.keys() == protocol.CAUSES.keys()
    assert set(endings.CAUSED.values()) <= endings.ENDINGS.keys()


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_every_bad_end_comes_with_advice(language: str) -> None:
    with translation.override(language):
        silent = {code for code in endings.ENDINGS if not endings.advice(code)}
    assert silent == {"succeeded", "stop", "evicted"}


def test_a_code_that_is_not_known_is_shown_as_it_is() -> None:
    assert (endings.sentence("beamed_up", {}), endings.advice("beamed_up")) == ("beamed_up", "")
    assert endings.sentence("exit_code", {}) == "exit_code"
