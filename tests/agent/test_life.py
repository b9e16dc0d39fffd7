"""An instance from order to forgetting, on a real agent."""

import os
import re
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import Machine, marked, new_id, spec
from tests.agent.platform import Platform

LOOP = "while :; do sleep 0.05; done"


@pytest.fixture
def platform(host: Machine) -> Platform:
    return host.platform


def ended(platform: Platform, command: str | None, **changes: Any) -> tuple[str, dict[str, Any], float]:
    """Run `command`, order its end once it said `up`; return id, last report, seconds from order to gone."""
    instance = new_id()
    platform.want(instance, spec(command, **changes))
    platform.log_has(instance, b"up\n")
    began = time.monotonic()
    platform.stop(instance)
    gone = platform.phase(instance, "gone")
    assert marked(instance) == []
    return instance, gone, time.monotonic() - began


def test_a_command_runs_and_its_end_log_and_folder_follow(platform: Platform, host: Machine) -> None:
    instance = new_id()
    platform.want(instance, spec("echo hello; exit 3"))
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["exit_signal"], gone["by_itself"], gone["detail"]) == (3, None, True, "")
    assert platform.log_has(instance, b"hello") == b"hello\n"
    assert gone["log_bytes"] == 6
    platform.done_with(instance)
    platform.until(lambda: platform.seen(instance) is None)
    assert not host.folder(instance).exists()


def test_a_command_killed_by_a_signal_reports_the_signal(platform: Platform, host: Machine) -> None:
    instance = new_id()
    platform.want(instance, spec("kill -SEGV $$"))
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["exit_signal"], gone["by_itself"]) == (None, signal.SIGSEGV, True)


def test_the_exit_command_runs_beside_the_process_which_is_told_to_end_after_it(platform: Platform) -> None:
    command = f"trap 'echo term; exit 7' TERM; echo $$ > pid; echo up; {LOOP}"
    exit_command = 'echo "exit $RANK"; kill -0 $(cat pid) && echo beside; sleep 0.2; echo done'
    instance, gone, took_s = ended(platform, command, exit_command=exit_command, grace_s=20)
    assert (gone["exit_code"], gone["by_itself"]) == (7, False)
    lines = platform.log_has(instance, b"term").split()
    assert [line for line in lines if line != b"Terminated"] == b"up exit 0 beside done term".split()
    assert took_s < 10  # long before its 20 s are over


def test_a_process_that_ignores_term_is_killed_when_its_grace_is_over(platform: Platform) -> None:
    _, gone, took_s = ended(platform, f"trap '' TERM; echo up; {LOOP}")
    assert (gone["exit_code"], gone["exit_signal"], gone["by_itself"]) == (None, signal.SIGKILL, False)
    assert took_s >= 1.0


def test_an_exit_command_that_never_returns_spends_the_one_grace(platform: Platform) -> None:
    command = f"trap 'echo term; exit 0' TERM; echo up; {LOOP}"
    late = "trap '' TERM; sleep 30; echo late"
    instance, gone, took_s = ended(platform, command, exit_command=late, grace_s=5)
    assert gone["exit_code"] == 0  # it was told before the end, and had time to obey
    assert 5.0 <= took_s < 10.0  # one grace, not two
    assert b"term" in platform.log_has(instance, b"term")


def test_telling_it_to_end_twice_runs_the_exit_command_once(platform: Platform) -> None:
    instance = new_id()
    platform.want(instance, spec(f"echo up; {LOOP}", exit_command="echo leaving; sleep 0.4", grace_s=5))
    platform.log_has(instance, b"up")
    platform.stop(instance)
    platform.log_has(instance, b"leaving")
    platform.stop(instance)
    platform.drop(instance)
    platform.phase(instance, "gone")
    assert platform.logs[instance].count(b"leaving") == 1


# No other run of these tests sleeps so long: a sleep that cleared its environment is known by that alone.
SLEEP_S = 100_000 + os.getpid()
ESCAPEES = (
    "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & "
    f"(setsid setsid sh -c '(sleep {SLEEP_S} &)' &) ; "
    f"env -i setsid sleep {SLEEP_S} & (env -i sleep {SLEEP_S} &); "
)


def test_what_escaped_into_other_sessions_ends_with_the_instance(platform: Platform) -> None:
    ended(platform, ESCAPEES + "sleep 0.2; echo up; wait")
    assert sleepers() == set()


def test_what_a_finished_command_left_behind_ends_before_its_end_is_reported(platform: Platform) -> None:
    instance = new_id()
    platform.want(instance, spec(ESCAPEES + "sleep 0.2; exit 5"))
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["by_itself"]) == (5, True)
    assert marked(instance) == []
    assert sleepers() == set()


def sleepers() -> set[str]:
    """Return the pids of the sleeps that cleared their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if re.match(rb"sleep\x00%d\x00" % SLEEP_S, path.read_bytes()):
                found.add(path.parent.name)
        except OSError:
            continue
    return found


def test_an_idle_member_keeps_its_place_until_it_is_told_to_end(platform: Platform) -> None:
    instance = new_id()
    platform.want(instance, spec(None))
    platform.phase(instance, "running")
    platform.stop(instance)
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["exit_signal"], gone["by_itself"], gone["detail"]) == (
        None,
        None,
        False,
        "",
    )


def test_the_process_gets_its_cards_rank_and_folders_and_nothing_of_the_agent(
    platform: Platform, host: Machine
) -> None:
    hosts = [
        {"name": "a", "address": "10.0.0.1", "cards": 2},
        {"name": "b", "address": "10.0.0.2", "cards": 2},
    ]
    instance = new_id()
    env = {"MINE": "ü=1", "RANK": "9", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}
    platform.want(instance, spec("env; pwd; cat $TAIJI_HOSTFILE", env=env, cards=[3, 5], hosts=hosts, rank=1))
    platform.phase(instance, "gone")
    lines = platform.log_has(instance, b"slots=2\n").decode().splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert {name: found[name] for name in EXPECTED} == EXPECTED
    assert found["TAIJI_INSTANCE_ID"] == instance
    assert found["TAIJI_TASK_DIR"] == str(host.storage / "ads/task-1")
    assert str(host.folder(instance) / "work") in lines
    assert lines[-2:] == ["10.0.0.1 slots=2", "10.0.0.2 slots=2"]
    assert found.keys().isdisjoint({"TAIJI_SECRET_KEY", "DATABASE_URL", "VIRTUAL_ENV", "PYTHONPATH"})
    assert stat.S_IMODE((host.storage / "ads/task-1").stat().st_mode) == 0o700


def test_the_process_ignores_no_signal_and_blocks_none(platform: Platform, host: Machine) -> None:
    instance = new_id()
    platform.want(instance, spec("exec grep -E 'Sig(Ign|Blk)' /proc/self/status"))
    platform.phase(instance, "gone")
    blocked, ignored = platform.log_has(instance, b"SigIgn").split()[1::2]
    usual = 2**31 - 1  # the two behind are the C library's own
    assert (int(blocked, 16), int(ignored, 16) & usual) == (0, 0)


EXPECTED = {
    "MINE": "ü=1",
    "CUDA_VISIBLE_DEVICES": "3,5",
    "NVIDIA_VISIBLE_DEVICES": "3,5",
    "TAIJI_CARDS": "2",
    "RANK": "1",
    "NODE_RANK": "1",
    "WORLD_SIZE": "2",
    "NNODES": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "20001",
}


def test_a_secret_is_in_no_command_line_and_in_no_file_once_the_process_runs(
    platform: Platform, host: Machine
) -> None:
    instance = new_id()
    platform.want(instance, spec(f"echo up; {LOOP}", env={"AWS_SECRET": "s3cr3t-of-mine"}))
    platform.log_has(instance, b"up")
    folder = host.folder(instance)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not [
        path for path in folder.rglob("*") if path.is_file() and b"s3cr3t-of-mine" in path.read_bytes()
    ]
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if holds(path, b"s3cr3t-of-mine")]
    assert all(holds(Path(f"/proc/{pid}/environ"), b"s3cr3t-of-mine") for pid in marked(instance))
    platform.drop(instance)


def holds(path: Path, word: bytes) -> bool:
    """Return whether `word` is in the file."""
    try:
        return word in path.read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"env": {"A=B": "1"}}, "The environment has a name that no variable can have: 'A=B'."),
        ({"env": {"A": "1\0"}}, "The environment's A has a value that no variable can have."),
        ({"env": {"A": "x" * 200_000}}, "/bin/sh could not be started: Argument list too long."),
        ({"cards": [0, 8, 9]}, "This host has no card 8, 9."),
        ({"task_dir": "../../etc"}, "The order's task_dir does not stay below the storage: '../../etc'."),
        ({"storage": "/etc"}, "The order's storage does not stay below the storage: '/etc'."),
        ({"storage": "file"}, "The folder {storage}/file could not be made: File exists."),
        ({"rank": None}, "The order's spec cannot be read: int() argument must be"),
    ],
)
def test_an_order_that_cannot_be_carried_out_ends_with_a_sentence(
    platform: Platform, host: Machine, changes: dict[str, Any], sentence: str
) -> None:
    (host.storage / "file").touch()
    instance = new_id()
    platform.want(instance, spec("echo never", **changes))
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["exit_signal"], gone["log_bytes"]) == (None, None, 0)
    assert gone["detail"].startswith(sentence.format(storage=host.storage))
    assert (host.folder(instance) / "exit.json").exists()
    assert not (host.folder(instance) / "spec.json").exists()


def test_a_storage_that_is_not_mounted_is_named_and_not_made(platform: Platform, host: Machine) -> None:
    host.storage.rename(host.storage.with_name("away"))
    instance = new_id()
    platform.want(instance, spec("echo never"))
    assert platform.phase(instance, "gone")["detail"] == f"The storage {host.storage} is not there."
    assert not host.storage.exists()
    host.storage.with_name("away").rename(host.storage)


def test_a_start_overtaken_by_its_stop_is_reported_as_gone(platform: Platform, host: Machine) -> None:
    instance = new_id()
    platform.stop(instance)
    gone = platform.phase(instance, "gone")
    assert (gone["by_itself"], gone["detail"]) == (False, "It was stopped before it started.")
    platform.want(instance, spec("echo never"))
    time.sleep(0.3)
    assert platform.logs.get(instance) is None


def test_nothing_starts_while_a_stray_lives(platform: Platform, host: Machine) -> None:
    stray, new = new_id(), new_id()
    platform.want(stray, spec(f"trap '' TERM; echo up; {LOOP}", grace_s=0.6))
    platform.log_has(stray, b"up")
    del platform.orders[stray]
    platform.want(new, spec("date +%s.%N; sleep 0.1"))
    platform.phase(new, "gone")
    ended_at = (host.folder(stray) / "exit.json").stat().st_mtime
    assert float(platform.log_has(new, b"\n").decode()) >= ended_at


def test_a_keeper_that_is_killed_leaves_nothing_running(platform: Platform, host: Machine) -> None:
    instance = new_id()
    command = f"env -i sleep {SLEEP_S} & setsid sleep {SLEEP_S} & sleep 0.1; echo up; wait"
    platform.want(instance, spec(command))
    platform.log_has(instance, b"up")
    assert len(sleepers()) == 2
    os.kill(keeper_of(host, instance), signal.SIGKILL)
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["by_itself"], gone["detail"]) == (None, None, "keeper lost")
    assert (marked(instance), sleepers()) == ([], set())


@pytest.mark.parametrize("command", ["exit 3", f"exec sleep {SLEEP_S}"], ids=["that ends", "that stays"])
def test_a_keeper_that_its_command_stops_goes_on(platform: Platform, host: Machine, command: str) -> None:
    instance = new_id()
    platform.want(instance, spec(f"kill -STOP $PPID; echo stopped; {command}"))
    platform.log_has(instance, b"stopped")
    if "sleep" in command:
        platform.stop(instance)
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["exit_signal"]) == ((None, 15) if "sleep" in command else (3, None))
    assert sleepers() == set()


def keeper_of(host: Machine, instance: str) -> int:
    """Return the pid of the keeper of `instance`."""
    return int(re.findall(r'"pid": (\d+)', (host.folder(instance) / "claim.json").read_text())[0])
