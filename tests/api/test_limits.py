"""How many calls a token makes, told in each answer and the same for all processes."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import Settings

from cluster import hints
from jobs.models import Task
from tests.api.conftest import Caller, doc, errors
from tests.world import World

Call = Callable[[User], Caller]


@pytest.fixture(autouse=True)
def _counted(valkey: str, settings: Settings) -> None:
    settings.API_RATE = 3
    redis.Redis.from_url(valkey).flushdb()


def test_each_answer_says_how_many_calls_are_left(ann: Caller) -> None:
    with time_machine.travel("2030-01-01T00:00:20+00:00", tick=False):
        answers = [ann.get("me/") for _ in range(3)]
    assert [answer["RateLimit-Remaining"] for answer in answers] == ["2", "1", "0"]
    assert {(answer["RateLimit-Limit"], answer["RateLimit-Reset"]) for answer in answers} == {("3", "40")}


def test_one_call_too_many_does_nothing_and_says_when_to_come_back(ann: Caller) -> None:
    with time_machine.travel("2030-01-01T00:00:20+00:00", tick=False) as clock:
        for _ in range(3):
            ann.get("me/")
        answer = ann.post("tasks/", doc())
        assert (answer.status_code, errors(answer)) == (429, {"": "throttled"})
        assert (answer["Retry-After"], answer["RateLimit-Remaining"]) == ("40", "0")
        assert not Task.objects.exists()
        clock.shift(40)
        assert ann.post("tasks/", doc()).status_code == 201


def test_tokens_are_counted_apart(ann: Caller, outsider: Caller, call: Call) -> None:
    for _ in range(4):
        ann.get("me/")
    assert ann.get("me/").status_code == 429
    assert outsider.get("me/").status_code == 200
    assert call(ann.user).get("me/").status_code == 200


def test_whoever_is_refused_for_want_of_a_token_is_not_counted(ann: Caller) -> None:
    assert {ann.client.get("/api/v1/me/").status_code for _ in range(5)} == {401}


@pytest.mark.django_db(transaction=True)
def test_calls_at_the_same_moment_are_all_counted(ann: Caller, settings: Settings) -> None:
    settings.API_RATE = 20

    def call(_number: int) -> int:
        try:
            return int(ann.get("me/").status_code)
        finally:
            connection.close()

    with time_machine.travel("2030-01-01T00:00:20+00:00", tick=False), ThreadPoolExecutor(4) as pool:
        assert Counter(pool.map(call, range(30))) == {200: 20, 429: 10}


def test_nobody_is_refused_while_nothing_counts(ann: Caller, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    hints._redis.cache_clear()
    answers = [ann.get("me/") for _ in range(5)]
    assert {answer.status_code for answer in answers} == {200}
    assert "RateLimit-Limit" not in answers[0]


def test_zero_means_no_limit(ann: Caller, settings: Settings, world: World) -> None:
    settings.API_RATE = 0
    assert {ann.get("me/").status_code for _ in range(5)} == {200}
