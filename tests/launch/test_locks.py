"""Locks that end with their holder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch import locks

HOLD = """
import fcntl, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_SH)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_a_lock_is_taken_by_one_alone(tmp_path: Path) -> None:
    first = locks.take(tmp_path / "lock")
    assert first is not None
    assert locks.take(tmp_path / "lock") is None
    os.close(first)
    assert locks.is_free(tmp_path / "lock")


def test_the_holder_of_a_lock_is_known(holder: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    assert locks.holders(tmp_path / "lock") == [holder.pid]


def test_a_child_that_inherited_a_lock_does_not_count_as_its_holder(tmp_path: Path) -> None:
    taken = locks.take(tmp_path / "other")
    assert taken is not None
    heir = subprocess.Popen(["/bin/sleep", "60"], pass_fds=[taken])
    try:
        assert locks.holders(tmp_path / "other") == [os.getpid()]
        os.close(taken)
        assert not locks.is_free(tmp_path / "other")
        assert locks.end_holders(tmp_path / "other", wait_s=0.0)
        assert heir.poll() is None
    finally:
        heir.kill()
        heir.wait()


def test_a_holder_that_does_not_heed_term_is_killed(
    holder: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    assert locks.end_holders(tmp_path / "lock", wait_s=0.1)
    assert holder.wait(timeout=5) == -9
