"""The agents' short way: the same answers, and whoever hangs up is forgotten."""

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from pytest_django import Settings

from cluster import agent_api, hub, lane, logs
from tests.cluster import words
from tests.cluster.words import Agent
from tests.world import World


async def elsewhere(scope: Any, receive: Any, send: Any) -> None:
    """Stand for the rest of the site."""
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def open_call(agent: Agent | None, method: str, path: str, *bodies: bytes) -> Any:
    """Begin a call in the short way, sending the body in these parts."""
    headers = [(b"authorization", agent.headers["authorization"].encode())] if agent else []
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": headers,
    }
    call: Any = ApplicationCommunicator(lane.before(elsewhere), scope)  # type: ignore[no-untyped-call]  # asgiref's
    for number, body in enumerate(bodies, 1):
        message = {"type": "http.request", "body": body, "more_body": number < len(bodies)}
        call.input_queue.put_nowait(message)
    return call


def call(agent: Agent | None, method: str, path: str, *bodies: bytes) -> tuple[int, Any]:
    """Call, and return the status and the document of the answer."""

    async def story() -> tuple[int, bytes, dict[bytes, bytes]]:
        opened = open_call(agent, method, path, *(bodies or (b"",)))
        start = await opened.receive_output(5)
        body = (await opened.receive_output(5))["body"]
        await opened.wait(60)
        return start["status"], body, dict(start["headers"])

    status, body, headers = async_to_sync(story)()
    if headers:
        assert headers[b"content-length"] == str(len(body)).encode()
    return status, json.loads(body) if headers.get(b"content-type") == b"application/json" else body


@pytest.fixture
def agent(world: World) -> Agent:
    """Return the agent of a host with one card."""
    return Agent(world.host("h1", 1))


def test_a_sync_sent_in_parts_is_answered(agent: Agent) -> None:
    whole = json.dumps(agent.report()).encode()
    status, answer = call(agent, "POST", "/api/agent/sync/", whole[:50], whole[50:])
    assert (status, answer["instances"]) == (200, [])


def test_the_log_goes_the_same_way(agent: Agent) -> None:
    pk = words.launch(agent.host)
    assert call(agent, "PUT", f"/api/agent/instances/{pk}/log/?offset=0", b"one\n") == (200, {"end": 4})
    assert logs.read(pk, 0, 9) == (b"one\n", 4)


def test_a_host_registers_the_same_way(db: None, settings: Settings) -> None:
    settings.JOIN_TOKEN = ""
    assert call(None, "POST", "/api/agent/register/", b"{}")[0] == 401


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/agent/sync/", 405),
        ("POST", "/api/agent/nothing/", 404),
        ("POST", "/api/agent/sync/", 401),
    ],
)
def test_what_is_refused_is_refused_here_too(db: None, method: str, path: str, status: int) -> None:
    assert call(None, method, path)[0] == status


def test_everything_else_goes_on_to_the_site(db: None) -> None:
    assert call(None, "GET", "/api/agents")[0] == 299


def test_a_body_that_never_ends_is_refused(agent: Agent, settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    assert call(agent, "POST", "/api/agent/sync/", b"x" * 900, b"x" * 900, b"x" * 900)[0] == 413


def test_a_fault_of_the_platform_is_answered_and_logged(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("what was wrong")

    monkeypatch.setattr(agent_api, "_take", broken)
    status, answer = call(agent, "POST", "/api/agent/sync/", b"{}")
    assert (status, answer["errors"][0]["code"]) == (500, "error")
    assert "what was wrong" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_who_hangs_up_while_it_waits_is_forgotten(agent: Agent, valkey: str) -> None:
    have = agent.sync()["version"]
    body = json.dumps(agent.report(have=have, wait_s=20)).encode()

    async def story() -> None:
        opened = open_call(agent, "POST", "/api/agent/sync/", body)
        await opened.receive_nothing(0.5)
        assert hub._hub()._listeners
        opened.input_queue.put_nowait({"type": "http.disconnect"})
        await opened.wait(60)
        assert not hub._hub()._listeners

    async_to_sync(story)()


def test_who_hangs_up_before_the_end_of_its_body_is_not_answered(db: None) -> None:
    async def story() -> None:
        opened = open_call(None, "POST", "/api/agent/sync/")
        opened.input_queue.put_nowait({"type": "http.disconnect"})
        await opened.wait(60)
        assert opened.output_queue.empty()

    async_to_sync(story)()


@pytest.mark.parametrize(
    ("path", "most"), [("/api/v1/tasks/", 10), ("/login/", 10), ("/api/v1/uploads/x/", 2**20)]
)
def test_elsewhere_a_body_is_cut_just_beyond_what_is_taken(path: str, most: int, settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE, settings.UPLOAD_MIB = 10, 1
    taken: list[Any] = []

    async def take(_scope: Any, receive: Any, _send: Any) -> None:
        taken.extend([await receive() for _ in range(3)])

    part = b"x" * (most // 2 + 2)
    came = [{"type": "http.request", "body": part, "more_body": True} for _ in range(5)]
    came.append({"type": "http.disconnect"})

    async def receive() -> Any:
        return came.pop(0)

    async_to_sync(lane.before(take))({"type": "http", "path": path}, receive, None)
    assert [len(message.get("body", b"")) for message in taken] == [len(part), most + 1 - len(part), 0]
    assert [message.get("more_body") for message in taken] == [True, False, None]
    assert taken[2]["type"] == "http.disconnect"
