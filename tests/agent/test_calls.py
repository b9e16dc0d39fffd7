"""The agent counts how its calls to the platform go: how many failed, how often, and for how long."""

import asyncio
import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from cluster.agent import link
from cluster.agent.calls import SLOT_S, WINDOW_S, Calls
from cluster.agent.link import Away, Link, Refused
from tests.agent.platform import Platform
from tests.chaos.proxy import Lines

BEGAN_S = 1000.0


def counted(*calls: tuple[float, bool]) -> Calls:
    """Return what counted these calls: when each ended, and whether it was answered."""
    found = Calls(BEGAN_S)
    for at_s, answered in calls:
        if answered:
            found.answered(at_s)
        else:
            found.failed(at_s, at_s, f"fault at {at_s:g}")
    return found


def test_without_a_fault_only_calls_are_counted() -> None:
    assert counted((1001, True), (1020, True)).report(1030) == {
        "over_s": 30,
        "made": 2,
        "failed": 0,
        "times": 0,
        "longest_s": 0,
        "fault": "",
    }


def test_a_row_of_failures_is_one_time_until_a_call_is_answered() -> None:
    calls = counted((1001, True), (1010, False), (1011, False), (1012.5, True), (1050, False), (1050.2, True))
    assert calls.report(1060) == {
        "over_s": 60,
        "made": 6,
        "failed": 3,
        "times": 2,
        "longest_s": 3,  # 2.5 in whole seconds
        "fault": "fault at 1050",
    }


@pytest.mark.parametrize("now_s", [1005.0, 1700.0, 5000.0])
def test_what_goes_on_is_as_long_as_it_goes_on(now_s: float) -> None:
    report = counted((1002, False)).report(now_s)
    assert report["longest_s"] == now_s - 1002


def test_a_time_begins_when_the_answer_was_due_not_when_the_agent_gave_up() -> None:
    calls = Calls(BEGAN_S)
    calls.failed(1040.0, 1000.0, "no answer", wait_s=20.0)  # it was awaited for 20 s more
    assert calls.report(1040.0)["longest_s"] == 20
    calls.answered(1041.0)
    calls.failed(1100.0, 1095.0, "cut", wait_s=20.0)  # long before it was due
    calls.answered(1103.0)
    assert (calls.report(1103.0)["longest_s"], calls.report(1103.0)["times"]) == (21, 2)


def test_calls_that_are_held_and_then_cut_are_a_time_each_though_none_is_ever_answered() -> None:
    """As where something in between lets no call wait for longer than 15 s."""
    calls = Calls(BEGAN_S)
    for began_s in range(1000, 1100, 20):
        calls.failed(began_s + 15.0, began_s, "cut", wait_s=20.0)
    found = calls.report(1100.0)
    assert (found["failed"], found["times"], found["longest_s"]) == (5, 5, 5)


def test_two_calls_that_are_cut_at_once_are_one_time_also_where_one_was_held_for_long() -> None:
    calls = Calls(BEGAN_S)
    calls.answered(1000.0)
    calls.failed(1010.0, 1009.0, "a log")
    calls.failed(1010.1, 1000.0, "news", wait_s=20.0)
    calls.failed(1010.1, 1001.0, "code", wait_s=math.inf)
    assert calls.report(1012.0)["times"] == 1
    calls.failed(1020.0, 1012.0, "news", wait_s=20.0)  # it was reached in between
    assert calls.report(1020.0)["times"] == 2


def test_a_time_that_began_too_long_ago_to_be_counted_and_goes_on_is_one() -> None:
    calls = Calls(BEGAN_S)
    for now_s in range(1000, 2000, 20):
        calls.failed(now_s, now_s, "no connection")
    found = calls.report(2000.0)
    assert (found["times"], found["longest_s"]) == (1, 1000)


def test_a_fault_with_letters_that_cannot_be_sent_stops_no_report() -> None:
    calls = Calls(BEGAN_S)
    calls.failed(1001.0, 1000.0, "caf\udce9")
    assert calls.report(1002.0)["fault"].encode() == b"caf?"


def test_a_platform_that_cannot_be_reached_for_long_is_one_time() -> None:
    calls = Calls(BEGAN_S)
    for began_s in range(1000, 1100, 20):
        calls.failed(began_s + 5.0, began_s, "no connection", wait_s=20.0)
        calls.failed(began_s + 15.0, began_s, "no answer")
    found = calls.report(1100.0)
    assert (found["failed"], found["times"], found["longest_s"]) == (10, 1, 95)


def test_what_is_too_old_is_forgotten_and_what_is_not_is_kept() -> None:
    calls = counted((1002, False), (1009, True), (1300, False), (1301, True))
    whole = calls.report(1300 + WINDOW_S - 2 * SLOT_S)
    assert (whole["made"], whole["failed"], whole["times"], whole["longest_s"]) == (2, 1, 1, 1)
    gone = calls.report(1301 + WINDOW_S + SLOT_S)
    assert gone == {"over_s": WINDOW_S, "made": 0, "failed": 0, "times": 0, "longest_s": 0, "fault": ""}


def test_many_calls_take_no_room() -> None:
    calls = Calls(BEGAN_S)
    for number in range(200_000):
        calls.failed(BEGAN_S + number / 100, BEGAN_S, "x" * 1000, wait_s=1e9)
    assert len(calls._slots) <= WINDOW_S / SLOT_S + 1
    assert len(calls.report(BEGAN_S + 2000)["fault"]) == 255


# Real calls


@pytest.fixture
def platform() -> Iterator[Platform]:
    """Return a platform that knows one host."""
    platform = Platform()
    platform.tokens = ["token"]
    yield platform
    platform.close()


def report(**more: Any) -> dict[str, Any]:
    return {"boot": "b", "seq": 1, "have": "", "wait_s": 0, **more}


def figures(url: str, *calls: Callable[[Link], Any]) -> dict[str, Any]:
    """Return what is counted of these calls, made one after the other."""

    async def story() -> dict[str, Any]:
        async with Link(url) as line:
            for call in calls:
                with suppress(Away, Refused):
                    await call(line)
            return line.calls.report(time.monotonic())

    return asyncio.run(story())


def test_answers_are_counted_also_those_that_say_no(platform: Platform) -> None:
    found = figures(
        platform.url,
        lambda line: line.sync("token", report()),
        lambda line: line.sync("token", report()),  # late: not newer than the one before
        lambda line: line.sync("wrong", report()),
        lambda line: line.append_log("token", "i", 7, b"x"),  # a gap
        lambda line: line.register("wrong", name="h1", region="", address=""),
    )
    assert (found["made"], found["failed"], found["times"]) == (5, 0, 0)


def test_a_platform_that_answers_with_an_error_counts_as_failed(platform: Platform) -> None:
    platform.sync_status = 503
    found = figures(platform.url, *[lambda line: line.sync("token", report())] * 2)
    assert (found["made"], found["failed"], found["times"]) == (2, 2, 1)
    assert found["fault"] == f"The platform at {platform.url} answers 503 Service Unavailable."


def test_a_port_where_nobody_listens_counts_as_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    found = figures(f"http://127.0.0.1:{port}", lambda line: line.append_log("token", "i", 0, b""))
    assert (found["made"], found["failed"]) == (1, 1)
    assert "does not answer" in found["fault"]


@pytest.mark.parametrize("mode", ["swallow", "no_answers"])
def test_an_answer_that_is_swallowed_counts_as_failed_for_as_long_as_it_was_due(
    platform: Platform, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "ANSWER_S", 0.6)
    lines = Lines(["h1"], platform.port)
    try:
        line = lines.by_name["h1"]
        line.be(mode)
        found = figures(f"http://127.0.0.1:{line.port}", lambda line: line.sync("token", report(wait_s=1)))
    finally:
        lines.close()
    assert (found["made"], found["failed"], found["longest_s"]) == (1, 1, 1)  # 0.6, not 1.6


async def download(line: Link, digest: str = "whole") -> None:
    async for _ in line.download("token", digest):
        pass


def test_code_that_comes_is_an_answer_and_so_is_that_there_is_none(platform: Platform) -> None:
    platform.code["whole"] = b"x" * 1000
    found = figures(platform.url, download, lambda line: download(line, "none"))
    assert (found["made"], found["failed"]) == (2, 0)


def test_code_that_breaks_off_half_way_counts_as_failed_from_then_on() -> None:
    async def half(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        await asyncio.sleep(1.2)
        writer.close()

    async def story() -> dict[str, Any]:
        server = await asyncio.start_server(half, "127.0.0.1", 0)
        async with server, Link(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as line:
            with pytest.raises(Away):
                await download(line)
            return line.calls.report(time.monotonic())

    found = asyncio.run(story())
    assert (found["made"], found["failed"], found["longest_s"]) == (1, 1, 1)  # not from its beginning


def test_a_call_that_the_agent_gives_up_itself_is_not_counted(platform: Platform) -> None:
    async def given_up(line: Link) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await line.sync("token", report(have="1", wait_s=20))

    assert figures(platform.url, given_up)["made"] == 0
