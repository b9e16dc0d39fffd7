"""A clock that is off shows it to the processes that have it, at once, and to nobody else."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.words import Refusal
from tests.chaos.clock import Clock, build

SAY = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
NEAR_S = 60.0


def test_the_wall_clock_is_off_and_the_one_that_only_goes_forward_is_not(tmp_path: Path) -> None:
    clock = Clock(build(tmp_path), tmp_path / "clock")
    command = [sys.executable, "-c", SAY]
    with subprocess.Popen(
        command, env=clock.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin
        assert process.stdout

        for off in (0.0, 3600.0, -420.5, 0.0):
            clock.be_off(off)
            process.stdin.write("\n")
            wall, steady = map(float, process.stdout.readline().split())
            assert abs(wall - time.time() - off) < NEAR_S
            assert abs(steady - time.monotonic()) < NEAR_S
        process.stdin.close()


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="install a C compiler"):
        build(tmp_path)
