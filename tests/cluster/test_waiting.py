"""A sync that waits: it answers at once when there is news, and else when its time is over."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from cluster import hub, sync
from cluster.executors import agents
from cluster.models import Host
from tests.cluster import words
from tests.cluster.words import Agent, instance, launch
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)
LONG_S = 20.0  # of waits that news has to end: so long that the slowest machine tells the two apart


def timed(call: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Run `call` in a loop and return how many seconds it took, and what it returned."""
    started = time.monotonic()

    async def run() -> Any:
        return await call()

    result = async_to_sync(run)()
    return time.monotonic() - started, result


async def meanwhile(agent: Agent, happens: Callable[[], Any], **report: Any) -> tuple[float, dict[str, Any]]:
    """Let the agent wait long for news; half a second later something happens. Return when it was answered."""
    waiting = asyncio.create_task(agent.async_sync(wait_s=LONG_S, **report))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await sync_to_async(happens)()
    started = time.monotonic()
    answer = await waiting
    return time.monotonic() - started, answer


@pytest.fixture
def agent(world: World) -> Agent:
    """Return the agent of a host with one card, which knows what it should run."""
    agent = Agent(world.host("h1", 1))
    agent.sync()
    return agent


def test_without_news_it_waits_its_time_and_says_the_same(agent: Agent, valkey: str) -> None:
    have = agent.sync()["version"]
    took, answer = timed(lambda: agent.async_sync(have=have, wait_s=0.5))
    assert took > 0.4
    assert answer["version"] == have


def test_what_is_news_to_the_agent_is_told_at_once(agent: Agent) -> None:
    took, _ = timed(lambda: agent.async_sync(have="older", wait_s=LONG_S))
    assert took < LONG_S / 2


def test_without_redis_a_wait_is_a_wait(agent: Agent) -> None:
    have = agent.sync()["version"]
    took, answer = timed(lambda: agent.async_sync(have=have, wait_s=0.5))
    assert took > 0.4
    assert answer["version"] == have


def test_a_launch_answers_who_waits(agent: Agent, valkey: str) -> None:
    have = agent.sync()["version"]
    took, answer = async_to_sync(meanwhile)(agent, lambda: launch(agent.host, 3), have=have)
    assert took < LONG_S / 2
    assert [one["run"] for one in answer["instances"]] == [True]


def test_a_stop_answers_who_waits(agent: Agent, valkey: str) -> None:
    on_it = [instance(launch(agent.host, 3))]
    have = agent.sync(instances=on_it)["version"]
    took, answer = async_to_sync(meanwhile)(agent, lambda: agents.stop([3]), have=have, instances=on_it)
    assert took < LONG_S / 2
    assert [one["run"] for one in answer["instances"]] == [False]


def test_news_of_another_host_does_not_answer(agent: Agent, world: World, valkey: str) -> None:
    other = world.host("h2", 0)
    have = agent.sync()["version"]

    async def story() -> None:
        waiting = asyncio.create_task(agent.async_sync(have=have, wait_s=LONG_S))
        await asyncio.sleep(0.3)
        await sync_to_async(launch)(other)
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await sync_to_async(launch)(agent.host, 3)
        await waiting

    async_to_sync(story)()


def test_who_waits_with_a_token_that_is_reset_is_told_nothing_more(
    agent: Agent, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host's next agent may have registered by then, and would be told to start the same."""
    have = agent.sync()["version"]

    async def story() -> None:
        waiting = asyncio.create_task(agent.async_sync(status=409, have=have, wait_s=LONG_S))
        await asyncio.sleep(0.5)
        await Host.objects.filter(pk=agent.host.pk).aupdate(token_hash="")
        await sync_to_async(launch)(agent.host, 3)
        await waiting

    async_to_sync(story)()


def test_what_happens_between_the_report_and_the_wait_is_not_lost(
    agent: Agent, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have = agent.sync()["version"]
    read = sync.desired
    launched: list[uuid.UUID] = []

    def then_launch(*args: Any) -> sync.Desired:
        answer = read(*args)
        if not launched:
            monkeypatch.setattr(agents, "_tell", lambda hosts: None)  # nobody hears of it
            launched.append(launch(agent.host, 3))
        return answer

    monkeypatch.setattr(sync, "desired", then_launch)
    took, answer = timed(lambda: agent.async_sync(have=have, wait_s=LONG_S))
    assert took < LONG_S / 2
    assert len(answer["instances"]) == 1


def test_a_newer_report_ends_the_wait_of_an_older_one(
    agent: Agent, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one does not know what is on the host by now: its answer would end what just started."""
    have, tell = agent.sync()["version"], agents._tell
    monkeypatch.setattr(agents, "_tell", lambda hosts: None)

    async def story() -> None:
        waiting = asyncio.create_task(agent.async_sync(status=409, have=have, wait_s=LONG_S))
        await asyncio.sleep(0.5)
        pk = await sync_to_async(launch)(agent.host, 3)
        newer = await agent.async_sync(instances=[instance(pk, "starting")])
        assert [one["run"] for one in newer["instances"]] == [True]
        await sync_to_async(tell)([agent.host.pk])
        await waiting

    async_to_sync(story)()


def test_a_host_removed_while_it_waits_is_answered(agent: Agent, valkey: str) -> None:
    have = agent.sync()["version"]

    def remove() -> None:
        Host.objects.update(state="removed")
        agents._tell([agent.host.pk])

    took, _ = async_to_sync(meanwhile)(agent, remove, have=have, status=409)
    assert took < LONG_S / 2


def test_who_hangs_up_is_forgotten(agent: Agent, valkey: str) -> None:
    have = agent.sync()["version"]

    async def story() -> None:
        waiting = asyncio.create_task(agent.async_sync(have=have, wait_s=LONG_S))
        await asyncio.sleep(0.5)
        assert hub._hub()._listeners
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert not hub._hub()._listeners

    async_to_sync(story)()


def test_an_end_that_is_told_again_does_not_keep_the_agent_spinning(agent: Agent, valkey: str) -> None:
    end = [words.instance(launch(agent.host, 3), "gone", exit_code=0)]
    have = agent.sync(instances=end)["version"]
    took, answer = timed(lambda: agent.async_sync(have=have, wait_s=0.5, instances=end))
    assert took > 0.4
    assert answer["forget"] == [end[0]["id"]]
