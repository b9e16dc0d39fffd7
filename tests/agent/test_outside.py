"""Who on a card is no task's, where that is not plain to see."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from cluster.agent import outside
from cluster.agent.outside import Ours, strangers


@pytest.fixture
def pid() -> Iterator[int]:
    """Return a process that is no task's."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def test_a_stranger_is_named_with_its_user(pid: int) -> None:
    (who,) = strangers([pid], Ours).values()
    assert who.startswith(f"sleep (pid {pid}) of ")


def test_a_process_that_is_gone_is_nobody_s(pid: int) -> None:
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # dead, and its entry is still there
    assert strangers([pid], Ours) == {}
    assert strangers([2**22 + 1], Ours) == {}


def test_without_processes_nobody_is_asked() -> None:
    def nobody() -> Ours:
        raise AssertionError

    with pytest.raises(AssertionError):
        strangers([1], nobody)
    assert strangers([], nobody) == {}


@pytest.mark.parametrize(
    ("contained", "ours", "strange"),
    [
        (True, Ours(instances=frozenset({"a"})), False),  # it may be that task's
        (True, Ours(), True),
        (False, Ours(instances=frozenset({"a"})), True),  # a person's, whoever that is
    ],
)
def test_of_whom_nothing_can_be_read_may_be_ours_only_in_a_container_and_while_there_are_tasks(
    pid: int, monkeypatch: pytest.MonkeyPatch, contained: bool, ours: Ours, strange: bool
) -> None:
    monkeypatch.setattr(outside, "_mark", lambda pid: None)
    monkeypatch.setattr(outside, "_is_in_container", lambda pid: contained)
    assert bool(strangers([pid], lambda: ours)) is strange


def test_a_mark_of_another_installation_makes_nobody_ours() -> None:
    environment = {**os.environ, "TAIJI_INSTANCE_ID": "another-s"}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        try:
            assert list(strangers([process.pid], lambda: Ours(instances=frozenset({"a"})))) == [process.pid]
            assert strangers([process.pid], lambda: Ours(instances=frozenset({"another-s"}))) == {}
        finally:
            process.kill()
