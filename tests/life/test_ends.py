"""How real processes end, and what is said of it: codes, signals, limits, retries, kept places."""

import time

import pytest
from django.test import Client
from django.utils import timezone

from cluster.models import CardLease
from jobs import endings
from jobs.models import Task
from quotas.models import ApiToken
from tests.agent.conftest import marked
from tests.life.house import House


@pytest.fixture
def house(house: House) -> House:
    """Return a house with one host, and hardly any backoff."""
    house.policy(pull_up_backoff_s=0.1, exit_grace_s=2.0)
    house.host("h1", 2)
    return house


def end_of(task: Task) -> tuple[str, str]:
    attempt = task.attempts.latest("number")
    return attempt.outcome_code, endings.sentence(attempt.outcome_code, attempt.outcome_args)


@pytest.mark.parametrize(
    ("command", "codes", "sentence"),
    [
        ("exit 3", {"exit_code"}, "The process on h1 ended with exit code 3"),
        ("kill -SEGV $$", {"exit_signal"}, "The process on h1 was ended by signal 11"),
        # Whether it was memory is known only where the kernel's counters can be read.
        ("kill -KILL $$", {"exit_signal", "maybe_out_of_memory"}, "The process on h1 was "),
        ("/no/such/program", {"exit_code"}, "The process on h1 ended with exit code 127"),
    ],
)
def test_an_end_by_itself_is_named(house: House, command: str, codes: set[str], sentence: str) -> None:
    task = house.submit(command)
    house.reach(task, "failed")
    code, said = end_of(task)
    assert code in codes
    assert said.startswith(sentence)


def test_the_api_says_why_and_what_to_do(house: House) -> None:
    task = house.submit("exit 3")
    house.reach(task, "failed")
    headers = {"Authorization": f"Token {ApiToken.objects.issue(task.user, 'test')}"}
    attempt = Client().get(f"/api/v1/tasks/{task.pk}/", headers=headers).json()["attempts"][0]
    assert {name: attempt[name] for name in ("outcome", "code", "message", "advice")} == {
        "outcome": "failed",
        "code": "exit_code",
        "message": "The process on h1 ended with exit code 3",
        "advice": "Its own last lines in the log say more.",
    }


def test_a_task_over_its_time_limit_is_ended_and_fails_with_that(house: House) -> None:
    task = house.submit("trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.05; done", time_limit=1)
    house.reach(task, "failed")
    assert end_of(task) == ("time_limit", "Its time limit of 1 s is over")
    assert "term" in house.printed(task, "term")
    assert marked(str(house.member(task).pk)) == []


def test_a_failure_is_tried_again_as_often_as_the_task_says(house: House) -> None:
    command = 'cd "$TAIJI_TASK_DIR"; n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; exit $((2 - n))'
    task = house.submit(command, retry_limit=2)
    house.reach(task, "succeeded")
    ended = [(one.outcome, one.outcome_code) for one in task.attempts.order_by("number")]
    assert ended == [("failed", "exit_code"), ("failed", "exit_code"), ("succeeded", "succeeded")]


def test_when_no_retry_is_left_it_has_failed(house: House) -> None:
    task = house.submit("exit 4", retry_limit=1)
    house.reach(task, "failed")
    assert task.attempts.count() == 2


def test_a_kept_place_lasts_half_an_hour_or_until_it_is_freed(house: House) -> None:
    task = house.submit("echo done", keep_alive=True)
    house.reach(task, "keeping")
    left = house.attempt(task).keep_until
    assert left is not None
    assert 1790 < (left - timezone.now()).total_seconds() <= 1800
    time.sleep(0.3)  # some passes
    house.reach(task, "keeping")
    assert CardLease.objects.filter(released_at=None).count() == 1
    headers = {"Authorization": f"Token {ApiToken.objects.issue(task.user, 'test')}"}
    assert Client().post(f"/api/v1/tasks/{task.pk}/free/", headers=headers).status_code == 200
    house.reach(task, "succeeded")
    assert not CardLease.objects.filter(released_at=None).exists()


def test_a_kept_place_is_given_up_when_its_time_is_over(house: House) -> None:
    task = house.submit("exit 5", keep_alive=True)
    house.reach(task, "keeping")
    task.attempts.update(keep_until=timezone.now())
    house.reach(task, "failed")
    assert end_of(task)[0] == "exit_code"
