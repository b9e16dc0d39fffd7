"""Logs: bytes are appended once and in order, and read from anywhere."""

import asyncio
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.test import Client

from cluster import hints, logs
from cluster.models import Instance
from tests.cluster import words
from tests.cluster.words import Agent
from tests.world import World

PK = uuid.UUID(int=7)


def test_bytes_are_appended_and_read_from_any_offset() -> None:
    assert logs.append(PK, 0, b"one\n") == 4
    assert logs.append(PK, 4, b"two\n") == 8
    assert logs.read(PK, 0, 100) == (b"one\ntwo\n", 8)
    assert logs.read(PK, 4, 2) == (b"tw", 8)
    assert logs.read(PK, 8, 100) == (b"", 8)
    assert logs.read(PK, 99, 100) == (b"", 8)
    assert logs.end_of(PK) == 8


def test_a_log_that_is_not_there_yet_is_empty() -> None:
    assert (logs.read(PK, 0, 10), logs.end_of(PK)) == ((b"", 0), 0)


def test_only_the_platform_may_read_a_log() -> None:
    logs.append(PK, 0, b"x")
    assert stat.S_IMODE(os.stat(logs.path_of(PK)).st_mode) == 0o600


@pytest.mark.parametrize(("offset", "data"), [(0, b"abc"), (1, b"bc"), (0, b"ab"), (3, b"")])
def test_what_is_there_already_is_not_written_again(offset: int, data: bytes) -> None:
    logs.append(PK, 0, b"abc")
    assert logs.append(PK, offset, data) == 3
    assert logs.read(PK, 0, 9)[0] == b"abc"


def test_of_a_part_that_overlaps_only_the_new_is_written() -> None:
    logs.append(PK, 0, b"abc")
    assert logs.append(PK, 2, b"cdef") == 6
    assert logs.read(PK, 0, 9)[0] == b"abcdef"


def test_a_gap_is_refused_and_says_where_to_go_on() -> None:
    logs.append(PK, 0, b"abc")
    with pytest.raises(logs.Gap) as gap:
        logs.append(PK, 4, b"e")
    assert gap.value.end == logs.end_of(PK) == 3


def test_the_same_parts_sent_by_many_at_once_are_written_once() -> None:
    parts = [bytes([65 + number]) * 1000 for number in range(20)]

    def send(_: int) -> None:
        for number, part in enumerate(parts):
            logs.append(PK, number * 1000, part)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, range(8)))
    assert logs.read(PK, 0, 100_000)[0] == b"".join(parts)


def test_a_full_log_takes_no_more_and_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_AT_MOST", 5)
    logs.append(PK, 0, b"12345")
    with pytest.raises(logs.Full) as full:
        logs.append(PK, 5, b"6")
    assert full.value.end == logs.end_of(PK) == 5


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the disk take two bytes more, and then none."""
    write, left = os.pwrite, [2]

    def pwrite(file: int, data: Any, offset: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(file, data[: left[0]], offset)
        left[0] -= done
        return done

    monkeypatch.setattr(os, "pwrite", pwrite)
    yield
    monkeypatch.undo()


def test_a_full_disk_writes_nothing_at_all(full_disk: None) -> None:
    with pytest.raises(logs.NoSpace):
        logs.append(PK, 0, b"abc")
    assert logs.end_of(PK) == 0


def test_logs_leave_the_last_room_on_the_disk_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    logs.append(PK, 0, b"abc")
    assert logs.has_room()
    monkeypatch.setattr(logs, "SPARED", 2**62)
    assert not logs.has_room()
    with pytest.raises(logs.NoSpace):
        logs.append(PK, 3, b"d")
    assert logs.append(PK, 3, b"") == logs.end_of(PK) == 3


@pytest.mark.parametrize(("offset", "until"), [(0, None), (5, None), (0, 700_000), (300_000, 300_000)])
def test_a_stream_is_the_log_in_pieces(offset: int, until: int | None) -> None:
    whole = os.urandom(1_000_000)
    logs.append(PK, 0, whole)

    async def pieces() -> list[bytes]:
        return [piece async for piece in logs.stream(PK, offset, until)]

    found = asyncio.run(pieces())
    assert b"".join(found) == whole[offset:until]
    assert all(len(piece) <= logs.CHUNK for piece in found)


# Over HTTP


@pytest.fixture
def agent(world: World) -> Agent:
    """Return the agent of h1."""
    return Agent(world.host("h1", 1))


def put(agent: Agent, pk: object, data: bytes, offset: object = 0) -> Any:
    """Send bytes of the log."""
    return Client().put(
        f"/api/agent/instances/{pk}/log/?offset={offset}",
        data,
        "application/octet-stream",
        headers=agent.headers,
    )


def test_an_agent_appends_and_is_told_the_end(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    pk = words.launch(agent.host, gang=9)
    monkeypatch.setattr(hints, "publish", lambda *topics: told.extend(topics))
    assert put(agent, pk, b"\xffone\n").json() == {"end": 5}
    assert put(agent, pk, b"two\n", 5).json() == {"end": 9}
    assert put(agent, pk, b"").json() == {"end": 9}
    assert logs.read(pk, 0, 99)[0] == b"\xffone\ntwo\n"
    assert told == ["log.9", "log.9"]


def test_the_last_words_of_one_that_is_gone_are_taken(agent: Agent) -> None:
    pk = words.launch(agent.host)
    Instance.objects.update(phase="gone")
    assert put(agent, pk, b"bye").status_code == 200


def test_a_gap_answers_where_to_go_on(agent: Agent) -> None:
    pk = words.launch(agent.host)
    put(agent, pk, b"abc")
    answer = put(agent, pk, b"x", 10)
    assert (answer.status_code, answer.json()["end"], answer.json()["errors"][0]["code"]) == (409, 3, "gap")


@pytest.mark.parametrize("offset", ["", "-1", "x", "1.5", "٣", "9" * 19])
def test_an_offset_that_is_none_is_refused(agent: Agent, offset: str) -> None:
    answer = put(agent, words.launch(agent.host), b"x", offset)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "offset")


def test_a_part_that_is_too_big_is_refused_whole(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PART_AT_MOST", 4)
    pk = words.launch(agent.host)
    assert put(agent, pk, b"1234").status_code == 200
    assert put(agent, pk, b"56789", 4).status_code == 413
    assert logs.end_of(pk) == 4


def test_a_full_log_says_so(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_AT_MOST", 4)
    answer = put(agent, words.launch(agent.host), b"56789")
    assert (answer.status_code, answer.json()["errors"][0]["code"], answer.json()["end"]) == (413, "full", 0)


def test_a_full_disk_says_so(agent: Agent, full_disk: None) -> None:
    answer = put(agent, words.launch(agent.host), b"abc")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (507, "no_space")


def test_a_host_cannot_write_the_log_of_another_s_instance(agent: Agent, world: World) -> None:
    pk = words.launch(world.host("h2", 0))
    assert put(agent, pk, b"x").status_code == 404
    assert put(agent, uuid.uuid4(), b"x").status_code == 404
    assert logs.end_of(pk) == 0


def test_without_a_valid_token_nothing_is_appended(agent: Agent) -> None:
    pk = words.launch(agent.host)
    agent.headers = {"authorization": "Bearer wrong"}
    assert put(agent, pk, b"x").status_code == 401


def test_words_are_found_with_the_place_of_their_line() -> None:
    logs.append(PK, 0, b"one\nTwo words\nthree\nwords and words again\n")
    assert logs.find(PK, b"WORDS", 0) == ([(4, b"Two words"), (20, b"words and words again")], None)
    assert logs.find(PK, b"words", 15) == ([(20, b"words and words again")], None)
    assert logs.find(PK, b"missing", 0) == ([], None)
    assert logs.find(uuid.UUID(int=8), b"words", 0) == ([], None)


def test_a_search_finds_so_many_lines_at_most_and_goes_on_behind_them() -> None:
    logs.append(PK, 0, b"".join(b"line %d\n" % number for number in range(10)))
    first, further = logs.find(PK, b"line", 0, most=4)
    assert [line for _place, line in first] == [b"line 0", b"line 1", b"line 2", b"line 3"]
    assert further is not None
    second, further = logs.find(PK, b"line", further, most=100)
    assert [line for _place, line in second] == [b"line %d" % number for number in range(4, 10)]
    assert further is None


@pytest.mark.parametrize("chunk", [1, 7, 10, 64])
def test_words_are_found_once_wherever_the_pieces_of_reading_end(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [b"needle %d %s" % (number, b"x" * (number * 3 % 11)) for number in range(40)]
    logs.append(PK, 0, b"\n".join(lines))
    monkeypatch.setattr(logs, "CHUNK", chunk)
    found, further = logs.find(PK, b"needle", 0)
    assert [line for _place, line in found] == lines
    assert further is None
    data, _end = logs.read(PK, 0, 10_000)
    assert all(data[place:].startswith(line) for place, line in found)


def test_a_search_reads_so_much_at_most_and_says_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    logs.append(PK, 0, b"x" * 5000 + b"\nneedle\n")
    monkeypatch.setattr(logs, "CHUNK", 1000)
    assert logs.find(PK, b"needle", 0, scan=1000) == ([], 1000)
    assert logs.find(PK, b"needle", 1000, scan=10_000) == ([(5001, b"needle")], None)


def test_of_a_very_long_line_only_what_stands_around_the_words_is_given() -> None:
    logs.append(PK, 0, b"a" * 600_000 + b" needle " + b"b" * 1000 + b"\n")
    ((place, line),), further = logs.find(PK, b"needle", 0)
    assert 0 < place < 600_000
    assert len(line) <= 2 * logs.EXCERPT + 6
    assert b"needle" in line
    assert further is None
