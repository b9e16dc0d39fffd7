"""Where the secret of a task stands while it runs, and once it is over: in the environment of its processes alone."""

from collections.abc import Iterator
from pathlib import Path

from jobs.states import State
from tests.life.house import House

SECRET = "env-s3cr3t!-of-a-running-task"


def readable(paths: Iterator[Path]) -> Iterator[tuple[str, bytes]]:
    """Return what the files hold, but for those that went meanwhile."""
    for path in paths:
        try:
            yield str(path), path.read_bytes()
        except OSError:
            continue


def holding(paths: Iterator[Path]) -> list[str]:
    """Return the files that hold the secret."""
    return [path for path, held in readable(paths) if SECRET.encode() in held]


def test_a_secret_reaches_its_task_and_stands_in_no_file_and_no_command_line(house: House) -> None:
    house.host("h1")
    secret = {"KEY": {"value": SECRET, "secret": True}}
    task = house.submit('echo "it is ${#KEY} long"; sleep 3; exit 3', env=secret)
    house.printed(task, f"it is {len(SECRET)} long")
    assert holding(Path("/proc").glob("[0-9]*/environ")), "no process has it: nothing was looked at"
    assert holding(Path("/proc").glob("[0-9]*/cmdline")) == []
    assert holding(path for path in house.folder.rglob("*") if path.is_file()) == []
    house.reach(task, State.FAILED)
    assert holding(path for path in house.folder.rglob("*") if path.is_file()) == []
    assert SECRET not in house.said()
