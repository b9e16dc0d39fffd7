"""A small world with two businesses, and clients that call the API as different people."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from cluster.models import Card, CardLease, Host, Instance
from jobs.models import Attempt, Task
from quotas.models import ApiToken
from tests.world import World


class Caller:
    """Calls the API with the token of one user."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.token = ApiToken.objects.issue(user, "test")
        ApiToken.objects.filter(user=user).update(
            last_used_at=timezone.now()
        )  # a use is written once a minute
        self.client = Client()

    def get(self, path: str, **query: Any) -> Any:
        """GET a path below /api/v1/."""
        return self.client.get(f"/api/v1/{path}", query, headers={"Authorization": f"Token {self.token}"})

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        """POST a JSON body to a path below /api/v1/."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(
            f"/api/v1/{path}",
            "" if body is None else json.dumps(body),
            content_type="application/json",
            headers={"Authorization": f"Token {self.token}", **named},
        )


@pytest.fixture
def call(world: World) -> Callable[[User], Caller]:
    """Return a maker of callers."""
    return Caller


@pytest.fixture
def ann(world: World) -> Caller:
    """Return a member of ads, which has quota for 16 P40 and two hosts of 8."""
    world.host("h1", 8, "P40")
    world.host("h2", 8, "P40")
    world.business("ads", P40=16)
    return Caller(world.user("ann", "ads"))


@pytest.fixture
def outsider(world: World) -> Caller:
    """Return a member of another business."""
    return Caller(world.user("zoe", "search"))


def doc(**fields: Any) -> dict[str, Any]:
    """Return a document that lacks nothing."""
    return {"business_flag": "ads", "start_cmd": "true", **fields}


def errors(response: Any) -> dict[str, str]:
    """Return code by field of an answer in the one form of errors, which is all that such an answer holds."""
    body = response.json()
    assert list(body) == ["errors"]
    assert all(set(error) == {"field", "code", "message"} and error["message"] for error in body["errors"])
    return {error["field"]: error["code"] for error in body["errors"]}


def run(task: Task, host: str, *indexes: int, number: int = 1, **attempt: Any) -> Instance:
    """Make an attempt of the task that runs on these cards of a host; return its one member."""
    cards = list(Card.objects.filter(host__name=host, index__in=indexes))
    values = {"task_class": "high", "gpu_type": cards[0].gpu_type, "cards": len(cards), **attempt}
    made = Attempt.objects.create(task=task, number=number, created_at=timezone.now(), **values)
    on = Host.objects.get(name=host)
    member = Instance.objects.create(host=on, gang=made.pk, label="x", spec={}, phase=Instance.Phase.RUNNING)
    CardLease.objects.bulk_create(CardLease(card=card, instance=member, gang=member.gang) for card in cards)
    if "ended_at" in attempt:
        CardLease.objects.filter(instance=member).update(released_at=timezone.now())
    return member
