"""Whatever comes to the agents' door, by path, header or body: an answer in the one form, and nothing half-made."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cluster import inventory
from cluster.models import Card, CardMinute, Host, HostEvent, Instance
from taiji_site.asgi import application
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)
fuzz = settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
INSTANCE = "instances/00000000-0000-4000-8000-000000000001/log/"
PATHS = ("register/", "sync/", INSTANCE, f"code/{'0' * 64}/", "instances/x/log/", "../v1/tasks/", "%00/", "")
METHODS = st.sampled_from(["POST", "PUT", "GET", "DELETE"])
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "authorization",
            "content-type",
            "content-length",
            "x-log-offset",
            "content-range",
            "accept-language",
            "x",
        ]
    ),
    st.binary(max_size=30).map(lambda value: value.replace(b"\r", b"").replace(b"\n", b"")),
    max_size=4,
)
FIELDS = ("name", "region", "address", "cards", "instances", "join_token", "boot", "seq", "now", "version", "protocol",
          "offers", "wait_s", "minutes", "calls", "known", "trouble", "machine", "seat", "storage")  # fmt: skip
BODIES = (
    st.binary(max_size=60)
    | ANY_JSON.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from(FIELDS), ANY_JSON, max_size=8).map(
        lambda value: json.dumps(value).encode()
    )
)


def call(method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes) -> tuple[int, bytes]:
    """Send one request to the real application, which may hold it for a moment."""
    sent: list[Any] = []

    async def story() -> None:
        came = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if came:
                return came.pop()
            await asyncio.sleep(0.2)  # longer nobody waits for the answer
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            **{"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "root_path": ""},
            **{"path": f"/api/agent/{path}", "raw_path": b"", "query_string": b"", "headers": headers},
            **{"client": ("127.0.0.1", 1), "server": ("testserver", 80), "asgi": {"version": "3.0"}},
        }
        await application(scope, receive, send)

    asyncio.run(story())
    if not sent:
        return 0, b""
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def rows() -> dict[str, Any]:
    """Return what an agent may change, but for the time when it was last heard."""
    return {
        "hosts": list(Host.objects.order_by("pk").values_list("name", "state", "address", "token_hash")),
        "cards": list(Card.objects.order_by("pk").values_list("host", "index", "gpu_type", "state")),
        "instances": list(Instance.objects.order_by("pk").values_list("pk", "phase", "log_bytes")),
        "events": HostEvent.objects.count(),
        "minutes": CardMinute.objects.count(),
    }


@pytest.mark.parametrize("known", [False, True], ids=["a stranger", "a host"])
def test_nothing_that_comes_is_answered_by_a_fault_or_half_made(world: World, known: bool) -> None:
    host = world.host("h1", 2)
    Host.objects.filter(pk=host.pk).update(token_hash=inventory.digest("its-token"))

    seen: set[int] = set()

    @fuzz
    @given(method=METHODS, headers=HEADERS, body=BODIES, path=st.none() | st.text(max_size=20))
    def trying(door: str, method: str, headers: dict[str, bytes], body: bytes, path: str | None) -> None:
        path = door if path is None else f"{door}{path}"
        before = rows()
        own = {"authorization": b"Bearer its-token", "content-type": b"application/json"} if known else {}
        pairs = [(name.encode(), value) for name, value in (headers | own).items()]
        status, answer = call(method, path, [(b"host", b"testserver"), *pairs], body)
        seen.add(status)
        assert status < 500, (status, answer)
        if status >= 400:
            said = json.loads(answer)
            assert set(said) == {"errors"}
            assert all(error["code"] and error["message"] for error in said["errors"])
        if status >= 400 or not known:
            assert rows() == before

    for door in PATHS:
        trying(door)
    assert (400 in seen) is known  # a host is told what is wrong, a stranger not even that there is a door
