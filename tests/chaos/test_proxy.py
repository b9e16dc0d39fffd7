"""A line passes on what comes, refuses, cuts, swallows and delays it, as it is told."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.chaos.proxy import Line, Lines

WAIT_S = 10.0


@pytest.fixture
def platform() -> Iterator[socket.socket]:
    """Give a platform that says everything back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        yield server


def _echo(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_echo_one, args=(connection,), daemon=True).start()


def _echo_one(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while part := connection.recv(1000):
            HEARD.append(part)
            connection.sendall(part)


HEARD: list[bytes] = []


@pytest.fixture
def line(platform: socket.socket) -> Iterator[Line]:
    """Give a line to it."""
    HEARD.clear()
    lines = Lines(["h1"], platform.getsockname()[1])
    yield lines.by_name["h1"]
    lines.close()


def call(line: Line, wait_s: float = WAIT_S) -> socket.socket:
    return socket.create_connection(("127.0.0.1", line.port), wait_s)


def heard() -> bool:
    """Say whether something reached the platform in time."""
    until = time.monotonic() + WAIT_S
    while not HEARD and time.monotonic() < until:
        time.sleep(0.01)
    return bool(HEARD)


def is_cut(connection: socket.socket) -> bool:
    try:
        return connection.recv(10) == b""
    except ConnectionError:
        return True


def test_it_passes_on(line: Line) -> None:
    with closing(call(line)) as connection:
        connection.sendall(b"report")
        assert connection.recv(10) == b"report"


def test_it_refuses_and_takes_calls_again(line: Line) -> None:
    with closing(call(line)) as connection:
        connection.sendall(b"a")
        assert connection.recv(10) == b"a"
        line.be("refuse")
        assert is_cut(connection)
    with closing(call(line)) as connection:
        assert is_cut(connection)
    line.be("pass")
    test_it_passes_on(line)


def test_what_is_swallowed_reaches_nobody(line: Line) -> None:
    line.be("swallow")
    with closing(call(line, 0.5)) as connection:
        connection.sendall(b"report")
        with pytest.raises(TimeoutError):
            connection.recv(10)
    assert HEARD == []


def test_a_report_without_its_answer_reaches_the_platform_alone(line: Line) -> None:
    line.be("no_answers")
    with closing(call(line, 0.5)) as connection:
        connection.sendall(b"report")
        assert heard()
        with pytest.raises(TimeoutError):
            connection.recv(10)


def test_it_delays(line: Line) -> None:
    line.be("delay", 0.2)
    with closing(call(line)) as connection:
        began = time.monotonic()
        connection.sendall(b"report")
        assert connection.recv(10) == b"report"
        assert time.monotonic() - began >= 0.4  # there and back


def test_a_cut_ends_what_is_there_and_takes_new_calls(line: Line) -> None:
    with closing(call(line)) as connection:
        connection.sendall(b"a")
        assert connection.recv(10) == b"a"
        line.cut()
        assert is_cut(connection)
    test_it_passes_on(line)
