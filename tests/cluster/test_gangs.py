"""The members of a gang are told to start together, once every one of them is ready."""

import asyncio
import uuid
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from pytest_django import DjangoAssertNumQueries

from cluster.models import Instance
from tests.cluster.words import Agent, instance, launch, row
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)
SPEC = {"label": "gang", "command": "true", "env": {}, "wait_for_go": True}


@pytest.fixture
def agents(world: World) -> list[Agent]:
    """Return the agents of three hosts."""
    found = [Agent(world.host(f"h{number}", 1)) for number in (1, 2, 3)]
    for agent in found:
        agent.sync()
    return found


def gang(agents: list[Agent], number: int = 7, **spec: Any) -> list[uuid.UUID]:
    """Want one member of a gang on each host."""
    return [launch(agent.host, number, rank, spec=SPEC | spec) for rank, agent in enumerate(agents)]


def goes(answer: dict[str, Any]) -> list[bool]:
    return [one["go"] for one in answer["instances"]]


def say(agent: Agent, pk: uuid.UUID, phase: str, **more: Any) -> list[bool]:
    return goes(agent.sync(instances=[instance(pk, phase, **more)]))


def test_nobody_is_told_to_start_before_the_last_one_is_ready(agents: list[Agent]) -> None:
    one, two, three = gang(agents)
    assert say(agents[0], one, "ready") == [False]
    assert say(agents[1], two, "ready") == [False]
    assert say(agents[2], three, "starting") == [False]
    assert say(agents[0], one, "ready") == [False]
    assert say(agents[2], three, "ready") == [True]
    assert say(agents[0], one, "ready") == [True]
    assert row(one).phase == "ready"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"phase": "running"}, True),  # an idle member, or an agent that knows nothing of waiting
        ({"phase": "ready"}, True),
        ({"phase": "ending"}, False),
        ({"phase": "gone", "detail": "no image"}, False),
        ({"phase": "gone", "exit_code": 0, "by_itself": True}, True),  # it ran, so all were ready
    ],
)
def test_what_a_member_says_counts_as_ready_or_not(
    agents: list[Agent], said: dict[str, Any], told: bool
) -> None:
    one, two = gang(agents[:2])
    say(agents[1], two, **said)
    assert say(agents[0], one, "ready") == [told]


def test_members_of_another_attempt_do_not_count(agents: list[Agent]) -> None:
    old = gang(agents[:2], 7)
    for agent, pk in zip(agents, old, strict=False):
        say(agent, pk, "running")
    one, _two = gang(agents[:2], 8)
    answer = agents[0].sync(instances=[instance(old[0], "running"), instance(one, "ready")])
    assert {each["id"]: each["go"] for each in answer["instances"]} == {str(old[0]): True, str(one): False}


def test_that_a_member_runs_is_no_news_to_its_host(agents: list[Agent]) -> None:
    one, two = gang(agents[:2])
    say(agents[1], two, "ready")
    told = agents[0].sync(instances=[instance(one, "ready")])
    running = agents[0].sync(instances=[instance(one, "running")])
    assert told["version"] == running["version"]


def test_the_last_one_to_be_ready_wakes_the_hosts_that_wait(agents: list[Agent], valkey: str) -> None:
    one, two = gang(agents[:2])
    have = agents[0].sync(instances=[instance(one, "ready")])["version"]

    async def meanwhile() -> dict[str, Any]:
        waiting = asyncio.create_task(
            agents[0].async_sync(instances=[instance(one, "ready")], have=have, wait_s=20.0)
        )
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await sync_to_async(agents[1].sync)(instances=[instance(two, "ready")])
        return await asyncio.wait_for(waiting, 10)

    assert goes(async_to_sync(meanwhile)()) == [True]


def test_one_that_stops_before_all_are_ready_is_not_told_to_start(agents: list[Agent]) -> None:
    one, two = gang(agents[:2])
    say(agents[1], two, "ready")
    Instance.objects.update(wanted=False)
    answer = agents[0].sync(instances=[instance(one, "ready")])
    assert [each["run"] for each in answer["instances"]] == [False]


def test_a_host_without_waiting_members_is_asked_nothing_more(
    agents: list[Agent], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    pk = launch(agents[0].host, 9, spec=SPEC | {"wait_for_go": False})
    say(agents[0], pk, "running")
    with django_assert_num_queries(3):  # host, instances, cards
        assert say(agents[0], pk, "running") == [False]
