"""Whatever the description allows, and what it does not, is answered as it says, to each role, and never by a 5xx."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cluster import samples
from cluster.models import Host
from jobs.models import Task, Template
from quotas.models import ApiToken, Business, Member, PlatformRole, Reservation
from tests.api.conftest import run
from tests.world import World

ROLES = ("nobody", "member", "lead", "auditor", "operator")
EXAMPLES = 3  # of each call, for each role: good ones, and as many that are not
CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/gzip")
def _as_it_is(_context: Any, value: Any) -> Any:
    """Send what was made for a packed folder as the bytes that it is."""
    return getattr(value, "data", value) if not isinstance(value, str) else value.encode(errors="replace")


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """Let the requests use the connection of the test, and leave it open, as Django's own client for tests does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def full(world: World) -> World:
    """Return a world in which most of what an id may name is there."""
    for name in ("h1", "h2"):
        world.host(name, 8, "P40")
    world.business("ads", P40=16)
    task = world.task(state="running")
    run(task, "h1", 0, 1)
    world.task(state="failed")
    world.task(state="held")
    Reservation.objects.create(business=world.business("ads"), gpu_type=world.gpu_type(), cards=2)
    Template.objects.create(name="for all", config={"GPUName": "P40"})
    samples.take(timezone.now(), {})
    return world


def person(world: World, role: str) -> User | None:
    """Return somebody of this role; the others are of ads."""
    match role:
        case "nobody":
            return None
        case "operator":
            return world.operator()
        case "auditor":
            user = world.user("aud")
            PlatformRole.objects.create(user=user, role=PlatformRole.Role.AUDITOR)
            return user
        case "lead":
            return world.user("lea", "ads", role=Member.Role.LEAD)
    return world.user("ann", "ads")


def known_ids(path: str) -> list[int]:
    """Return ids of what the path is of."""
    kind = path.removeprefix("/api/v1/").partition("/")[0]
    models: dict[str, Any] = {"hosts": Host, "businesses": Business, "templates": Template}
    if kind in models:
        return list(models[kind].objects.values_list("pk", flat=True))
    return list(Task.objects.values_list("pk", flat=True))


@pytest.mark.parametrize("role", ROLES)
def test_every_call_answers_as_described(role: str, full: World) -> None:
    user = person(full, role)
    headers = {"Authorization": f"Token {ApiToken.objects.issue(user, 'fuzz')}"} if user else {}
    with_operator = {"Authorization": f"Token {ApiToken.objects.issue(full.operator(), 'schema')}"}
    seen: Counter[str] = Counter()
    dice = random.Random(7)
    schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", get_wsgi_application(), headers=with_operator)
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]  # raises where the description is wrong
        ids = known_ids(operation.path)

        def check(case: Any, ids: list[int] = ids) -> None:
            if "id" in (case.path_parameters or {}) and ids and dice.random() < 0.7:
                case.path_parameters["id"] = dice.choice(ids)
            response = case.call(headers=headers)
            seen[f"{case.method} {response.status_code}"] += 1
            case.validate_response(response, checks=CHECKED)

        try_all(operation.as_strategy(generation_mode=GenerationMode.POSITIVE), check)
        with suppress(Unsatisfiable):  # nothing is wrong where nothing is asked
            try_all(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), check)
    if role == "nobody":
        # 404 is an address that no call has, such as one of a host -1.
        assert {name.split()[1] for name in seen} <= {"400", "401", "404", "405", "413", "415"}
    else:
        assert seen["GET 200"] > 20
        assert seen["POST 201"] + seen["POST 403"] + seen["POST 400"] > 20


def try_all(strategy: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Run the check on some cases."""

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def trying(case: Any) -> None:
        check(case)

    trying()
