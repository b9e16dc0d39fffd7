"""The platform as a Python object: what is repeated, what is not, and what each failure says."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from jobs.client import calls, platform
from jobs.client.errors import Refused, Unreachable
from jobs.client.platform import AsyncTaiji, Taiji

Answer = Callable[[httpx.Request], httpx.Response]
URL = "https://taiji.example.org"
FAULT = {"field": "", "code": "throttled", "message": "Not so fast."}


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleep no longer than it takes to write down how long."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(time, "sleep", found.append)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return found


class Script:
    """Answers one request after the other, and remembers them."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.asked: list[httpx.Request] = []
        self._answers: Iterator[httpx.Response | Exception] = iter(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def taiji(script: Script) -> Taiji:
    return Taiji(URL, "secret-token", transport=httpx.MockTransport(script))


def both(script: Script, call: Callable[[Any], Any], *, awaited: bool) -> Any:
    """Make a call of the one platform or of the other."""
    if not awaited:
        return call(taiji(script))

    async def run() -> Any:
        async with AsyncTaiji(URL, "secret-token", transport=httpx.MockTransport(script)) as there:
            return await call(there)

    return asyncio.run(run())


either = pytest.mark.parametrize("awaited", [False, True], ids=["called", "awaited"])


@either
def test_a_submission_whose_answer_was_lost_is_sent_again_with_the_same_key(awaited: bool) -> None:
    script = Script(httpx.ReadError("cut"), httpx.Response(503), httpx.Response(201, json={"id": 7}))
    assert both(script, lambda there: there.submit({"business_flag": "ads"}), awaited=awaited) == {"id": 7}
    keys = {request.headers["Idempotency-Key"] for request in script.asked}
    assert len(script.asked) == 3
    assert len(keys) == 1
    assert json.loads(script.asked[-1].content) == {"business_flag": "ads"}
    assert script.asked[0].headers["Authorization"] == "Token secret-token"
    assert str(script.asked[0].url) == f"{URL}/api/v1/tasks/"


@either
def test_what_would_be_done_twice_is_sent_again_under_its_key(awaited: bool) -> None:
    script = Script(httpx.ReadError("cut"), httpx.Response(201, json={"id": 8}))
    assert both(script, lambda there: there.retry(7), awaited=awaited) == {"id": 8}
    assert len({request.headers["Idempotency-Key"] for request in script.asked}) == 1
    script = Script(httpx.ReadError("cut"), httpx.Response(200, json={"id": 7}))
    assert both(script, lambda there: there.stop(7), awaited=awaited) == {"id": 7}
    assert len({request.headers["Idempotency-Key"] for request in script.asked}) == 1


@either
def test_many_are_submitted_and_steered_at_once(awaited: bool) -> None:
    result = {"status": 201, "task": {"id": 1}, "errors": []}
    script = Script(httpx.Response(200, json={"results": [result]}), httpx.Response(200, json={"done": 2}))
    assert both(script, lambda there: there.submit_many([{"a": 1}]), awaited=awaited) == [result]
    assert both(script, lambda there: there.steer_many("stop", state="queued"), awaited=awaited) == {
        "done": 2
    }
    assert [json.loads(request.content) for request in script.asked] == [
        {"tasks": [{"a": 1}]},
        {"filter": {"state": "queued"}},
    ]
    with pytest.raises(ValueError, match="ids or filters"):
        calls.steer_many("stop", [], {})


@either
def test_a_platform_that_asks_to_wait_is_asked_again_after_so_long(slept: list[float], awaited: bool) -> None:
    busy = httpx.Response(429, headers={"Retry-After": "7"}, json={"errors": [FAULT]})
    script = Script(busy, httpx.Response(200, json={"id": 8}))
    assert both(script, lambda there: there.stop(8), awaited=awaited) == {
        "id": 8
    }  # it was not done the first time
    assert slept == [7.0]


@either
def test_a_platform_that_stays_away_is_given_up(slept: list[float], awaited: bool) -> None:
    script = Script(*[httpx.ConnectError("refused")] * 9)
    with pytest.raises(Unreachable, match="refused"):
        both(script, lambda there: there.task(7), awaited=awaited)
    assert slept == [0.5, 1.0, 2.0]


@either
def test_all_faults_of_a_document_come_with_their_fields(awaited: bool) -> None:
    faults = [
        {"field": "host_num", "code": "type", "message": "No."},
        {"field": "", "code": "x", "message": "Nor."},
    ]
    script = Script(httpx.Response(400, json={"errors": faults}))
    with pytest.raises(Refused) as refused:
        both(script, lambda there: there.submit({}), awaited=awaited)
    assert str(refused.value) == "host_num: No.\nNor."
    assert (refused.value.status, refused.value.faults[0].code) == (400, "type")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, text="<html>"),
        httpx.Response(200, text="<html>"),
        httpx.Response(400, json={"errors": [1]}),
    ],
)
def test_an_address_that_is_no_platform_is_told_apart_from_a_refusal(answer: httpx.Response) -> None:
    with pytest.raises(Unreachable, match="answers"):
        taiji(Script(answer)).task(7)


def test_lists_are_followed_page_by_page() -> None:
    pages = [{"results": [{"id": 3}, {"id": 2}], "next": f"{URL}/api/v1/tasks/?cursor=2"}]
    pages.append({"results": [{"id": 1}], "next": ""})
    script = Script(*(httpx.Response(200, json=page) for page in pages))
    assert [task["id"] for task in taiji(script).tasks(state="queued", user=None)] == [3, 2, 1]
    assert [str(request.url).partition("?")[2] for request in script.asked] == ["state=queued", "cursor=2"]


def test_lists_are_followed_where_they_are_awaited() -> None:
    pages = [
        {"results": [{"id": 3}], "next": f"{URL}/api/v1/tasks/?cursor=2"},
        {"results": [{"id": 1}], "next": None},
    ]
    script = Script(*(httpx.Response(200, json=page) for page in pages))

    async def run() -> list[int]:
        async with AsyncTaiji(URL, "t", transport=httpx.MockTransport(script)) as there:
            return [task["id"] async for task in there.tasks()]

    assert asyncio.run(run()) == [3, 1]


@either
def test_a_log_is_the_bytes_that_it_is(awaited: bool) -> None:
    script = Script(httpx.Response(200, content=b"\xff\x00 10 %\r", headers={"X-Log-End": "70"}))
    part = both(script, lambda there: there.log(7, rank=1, offset=63), awaited=awaited)
    assert (part.data, part.offset, part.end) == (b"\xff\x00 10 %\r", 63, 70)
    assert str(script.asked[0].url).partition("?")[2] == "rank=1&offset=63"


def page(*, last: int, over: bool = False) -> httpx.Response:
    return httpx.Response(200, json={"results": [{"id": last}], "last": last, "over": over})


@either
def test_waiting_outlives_a_platform_that_is_away(awaited: bool) -> None:
    away = [httpx.ConnectError("refused")] * platform.TRIES
    script = Script(
        page(last=4), *away, page(last=5, over=True), httpx.Response(200, json={"state": "failed"})
    )
    assert both(script, lambda there: there.wait(7), awaited=awaited) == {"state": "failed"}
    assert [str(request.url).partition("?")[2] for request in script.asked][:2] == [
        "after=0",
        "after=4&wait=25",
    ]


@either
def test_an_address_that_never_answered_is_not_waited_for(awaited: bool) -> None:
    for answer in ([httpx.ConnectError("refused")] * platform.TRIES, [httpx.Response(404, text="<html>")]):
        with pytest.raises(Unreachable):
            both(Script(*answer), lambda there: there.wait(7), awaited=awaited)


@either
def test_a_platform_that_stays_away_is_waited_for_no_longer_than_patience(awaited: bool) -> None:
    script = Script(page(last=4), *[httpx.ConnectError("refused")] * platform.TRIES)
    with pytest.raises(Unreachable):
        both(script, lambda there: there.wait(7, patience_s=0.0), awaited=awaited)


def test_there_is_no_other_thing_to_do_to_a_task() -> None:
    with pytest.raises(ValueError, match="stop, hold, release, free, not to 'delete'"):
        calls.steer(7, "delete")
