"""The first process of a container in the shells that images have: how its command ended is how it ends."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cluster.kubernetes.options import RUN_FOLDER
from cluster.kubernetes.script import FIRST
from tests.patience import WITHIN_S

AT_ONCE = 40  # more than there are processors: each step of one may come between any two of another
SHELLS = {"dash": ["dash"], "bash": ["bash"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    program, *more = SHELLS[request.param]
    if not (found := shutil.which(program)):
        pytest.skip(f"There is no {program} here.")
    return [found, *more]


def begin(shell: list[str], folder: Path, command: str) -> "subprocess.Popen[bytes]":
    """Start the first process of a container that has `folder` to itself."""
    folder.mkdir()
    env = {
        "PATH": os.environ["PATH"],
        "TAIJI_TASK_DIR": str(folder),
        "TAIJI_HOSTS": "gpu-1",
        "TAIJI_SEATS": "",
    }
    script = FIRST.replace(RUN_FOLDER, str(folder))
    return subprocess.Popen(
        [*shell, "-c", script, "taiji", command], cwd=folder, env=env, stderr=subprocess.DEVNULL
    )


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("nothing-of-this-name", 127)])
def test_it_ends_as_its_command_does(shell: list[str], tmp_path: Path, command: str, code: int) -> None:
    assert begin(shell, tmp_path / "one", command).wait(WITHIN_S) == code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("trap 'echo >ended; exit 6' TERM; echo >up; sleep 60 & wait", 6),
        ("echo >up; sleep 60; exit 5", 143),
        ("trap 'wait; exit 0' TERM; echo >up; sleep 60 & wait", 0),
    ],
    ids=["with a code of its own", "of the signal", "once what it started has ended"],
)
def test_told_to_end_it_ends_as_its_command_does_however_the_two_meet(
    shell: list[str], tmp_path: Path, command: str, code: int
) -> None:
    begun = [begin(shell, tmp_path / str(number), command) for number in range(AT_ONCE)]
    deadline = time.monotonic() + WITHIN_S
    while not all((tmp_path / str(number) / "up").exists() for number in range(AT_ONCE)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for one in begun:
        one.send_signal(signal.SIGTERM)
    assert [one.wait(WITHIN_S) for one in begun] == [code] * AT_ONCE
