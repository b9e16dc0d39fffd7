"""Logs reach the platform whole and in order, and hold up nothing."""

import os
import time
from pathlib import Path

import pytest

from cluster.agent import logs
from cluster.agent.logs import Tail
from tests.agent.conftest import Machine, new_id, spec


def drain(tail: Tail) -> bytes:
    """Return all that `tail` would send from now on."""
    sent = b""
    tail.measure()
    while tail.unsent:
        part = tail.read()
        sent += part
        tail.sent = (tail.sent or 0) + len(part)
    return sent


def test_a_long_log_is_sent_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BATCH", 10)
    (tmp_path / "log").write_bytes(b"0123456789" * 3 + b"end")
    tail = Tail(tmp_path / "log", cap=1000)
    tail.measure()
    assert tail.read() == b"0123456789"
    assert drain(tail) == b"0123456789" * 3 + b"end"


def test_a_log_over_its_cap_ends_with_a_mark(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 150)
    tail = Tail(tmp_path / "log", cap=100)
    mark = b"\n[taiji] This log is longer than 100 bytes: the rest is not kept.\n"
    assert drain(tail) == b"x" * 100 + mark
    with (tmp_path / "log").open("ab") as file:
        file.write(b"more")
    assert drain(tail) == b""
    assert tail.end == 100 + len(mark)


def test_of_a_log_that_is_removed_nothing_is_left_to_send(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"sent and not sent")
    tail = Tail(tmp_path / "log", cap=100)
    tail.measure()
    tail.sent = 4
    (tmp_path / "log").unlink()
    assert drain(tail) == b""


def test_a_log_that_a_task_turns_into_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"not sent")
    tail = Tail(tmp_path / "log", cap=100)
    tail.measure()
    (tmp_path / "log").unlink()
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match="seek"):
        tail.read()
    assert drain(tail) == b""


def test_a_log_at_its_cap_has_no_mark(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 100)
    assert drain(Tail(tmp_path / "log", cap=100)) == b"x" * 100


def test_a_log_far_over_its_cap_is_cut_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SLACK", 50)
    path = tmp_path / "log"
    tail = Tail(path, cap=100)
    with path.open("ab") as file:
        for _ in range(5):
            file.write(b"x" * 60)
            file.flush()
            tail.measure()
            assert path.stat().st_size <= 161
    assert drain(tail).startswith(b"x" * 100 + b"\n[taiji]")


def test_a_log_that_its_process_emptied_goes_on_behind_what_was_sent(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"before ")
    tail = Tail(path, cap=1000)
    assert drain(tail) == b"before "
    path.write_bytes(b"new")
    assert drain(tail) == b"new"
    assert (tail.sent, tail.end) == (10, 10)


def test_a_log_that_was_emptied_while_no_agent_looked_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"new")
    tail = Tail(path, cap=1000)
    tail.measure()
    tail.resume(7)
    assert drain(tail) == b"new"
    assert (tail.sent, tail.end) == (10, 10)


def test_a_line_is_at_the_platform_long_before_its_task_ends(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, spec("echo up; sleep 0.5; date +%s.%N; sleep 100"))
    platform.log_has(instance, b"up")
    printed = float(
        platform.until(
            lambda: platform.logs[instance].count(b"\n") == 2 and platform.logs[instance].split()[1]
        )
    )
    assert time.time() - printed < 50  # long before it ends
    platform.drop(instance)


def test_a_platform_without_room_for_logs_still_hears_of_ends_and_gets_the_log_later(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.log_status = 507
    platform.want(instance, spec("echo kept"))
    assert platform.phase(instance, "gone")["exit_code"] == 0
    platform.done_with(instance)
    time.sleep(0.3)
    assert platform.seen(instance) is not None  # not forgotten before its log is sent
    platform.log_status = None
    assert platform.log_has(instance, b"kept") == b"kept\n"
    platform.until(lambda: platform.seen(instance) is None)


def test_a_log_that_is_refused_for_good_is_let_go(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.log_status = 404
    platform.want(instance, spec("echo lost"))
    platform.phase(instance, "gone")
    platform.done_with(instance)
    platform.until(lambda: platform.seen(instance) is None)
    platform.log_status = None


def test_the_agent_goes_on_from_where_the_platform_s_log_ends(host: Machine) -> None:
    platform, instance = host.platform, new_id()
    platform.want(instance, spec("echo one; sleep 0.5; echo two; sleep 5"))
    platform.log_has(instance, b"one\n")
    del platform.logs[instance][2:]  # the platform lost its last bytes
    assert platform.log_has(instance, b"two\n") == b"one\ntwo\n"
    platform.drop(instance)
