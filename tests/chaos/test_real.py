"""Processes that are alive are judged by themselves and against the rows."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.agent.protocol import HOST_LOST
from tests.chaos import alive, real
from tests.chaos.alive import Alive
from tests.chaos.rows import Instance, Rows
from tests.chaos.rules import Violation
from tests.chaos.test_rules import good

ONE = Alive(pid=1, start=1, instance="c", task=2, rank=0, host="h1", cards=frozenset({0}))


def said(found: Iterator[Violation]) -> list[str]:
    return [violation.rule for violation in found]


def with_instance(pk: str, **changes: object) -> Rows:
    changed: list[Instance] = [
        replace(row, **changes) if row.id == pk else row  # type: ignore[arg-type]  # by name
        for row in good().instances
    ]
    return replace(good(), instances=tuple(changed))


def test_two_instances_on_one_card_are_found() -> None:
    other = replace(ONE, pid=2, instance="x", task=9)
    assert said(real.no_card_is_used_twice([ONE, other])) == ["I1"]
    assert said(real.no_card_is_used_twice([ONE, replace(other, cards=frozenset({1}))])) == []
    assert said(real.no_card_is_used_twice([ONE, replace(other, host="h2")])) == []
    assert said(real.no_card_is_used_twice([ONE, replace(ONE, pid=3)])) == []


def test_a_task_that_runs_twice_is_found_unless_its_host_was_given_up() -> None:
    other = replace(ONE, pid=2, instance="b", host="h2")
    assert said(real.no_task_runs_twice([ONE, other], good())) == ["I7"]
    assert said(real.no_task_runs_twice([ONE, other], with_instance("b", detail=HOST_LOST))) == []
    assert said(real.no_task_runs_twice([ONE, replace(other, rank=1)], good())) == []


def test_what_runs_although_it_is_gone_is_found() -> None:
    assert said(real.what_is_gone_does_not_run(good(), [ONE])) == []
    assert said(real.what_is_gone_does_not_run(with_instance("c", phase="gone"), [ONE])) == ["I7"]
    given_up = with_instance("c", phase="gone", detail=HOST_LOST)
    assert said(real.what_is_gone_does_not_run(given_up, [ONE])) == []
    assert said(real.nothing_runs([ONE])) == ["I7"]


def test_an_instance_that_started_twice_or_is_not_of_its_task_is_found() -> None:
    right = {1: ["start a 0", "start b 0", "done b 0"], 2: ["start c 0", "start d 1"]}
    assert said(real.traces_agree(good(), right)) == []
    assert said(real.traces_agree(good(), {1: ["start a 0", "start a 0"]})) == ["I7"]
    assert said(real.traces_agree(good(), {1: ["start c 0"]})) == ["I7"]
    assert said(real.traces_agree(good(), {1: ["start unknown 0"]})) == ["I7"]


def test_a_success_that_never_came_to_its_end_is_found() -> None:
    assert said(real.successes_are_true(good(), {1: ["start b 0", "done b 0"]})) == []
    assert said(real.successes_are_true(good(), {1: ["start a 0", "done a 0", "start b 0"]})) == ["I9"]
    assert said(real.successes_are_true(good(), {})) == ["I9"]


@pytest.fixture
def process(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Give a process with the environment of a task's."""
    env = {
        "TAIJI_INSTANCE_ID": "c",
        "TAIJI_TASK_DIR": f"{tmp_path}/storage/business-1/task-2",
        "TAIJI_HOSTFILE": f"{tmp_path}/agents/h1/instances/c/hosts",
        "CUDA_VISIBLE_DEVICES": "0,3",
        "RANK": "1",
    }
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as found:
        while b"RANK=1" not in Path(f"/proc/{found.pid}/environ").read_bytes():
            time.sleep(0.01)  # it is not what it will be until its program is loaded
        yield found
        found.kill()


def test_a_process_is_read_from_its_environment(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    (found,) = alive.look(tmp_path)
    assert (found.pid, found.instance, found.task, found.rank) == (process.pid, "c", 2, 1)
    assert (found.host, set(found.cards)) == ("h1", {0, 3})


def test_processes_of_others_and_dead_ones_are_not_seen(
    tmp_path: Path, process: "subprocess.Popen[bytes]"
) -> None:
    assert alive.look(tmp_path / "elsewhere") == ()
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and its entry is still there
    assert alive.look(tmp_path) == ()


def test_what_tasks_wrote_down_is_read_by_task(tmp_path: Path) -> None:
    folder = tmp_path / "business-1" / "task-7"
    folder.mkdir(parents=True)
    (folder / "runs").write_text("start a 0\ndone a 0\n")
    assert real.read_traces(tmp_path) == {7: ["start a 0", "done a 0"]}
