"""An agent that ends, is killed or comes back late loses nothing and starts nothing twice."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cluster.agent import processes, records
from cluster.agent.__main__ import lock
from cluster.agent.kept import CALL, Kept
from cluster.agent.python import PYTHON, ROOT
from cluster.converge import Seen
from tests.agent.conftest import Machine, marked, new_id, spec
from tests.patience import WITHIN_S

LOOP = "while :; do sleep 0.05; done"


def test_what_runs_is_found_again_after_the_agent_was_killed(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    machine.start()
    platform.want(instance, spec(f"echo up $$; {LOOP}"))
    platform.phase(instance, "running")
    line = platform.log_has(instance, b"\n")
    machine.end(signal.SIGKILL)
    machine.start()
    before = len(platform.reports)
    platform.until(lambda: len(platform.reports) > before)
    assert platform.phase(instance, "running")["log_bytes"] == len(line)
    platform.stop(instance)
    assert platform.phase(instance, "gone")["exit_signal"] == signal.SIGTERM
    assert marked(instance) == []
    assert platform.logs[instance] == line  # neither started twice nor sent twice


def test_an_end_while_no_agent_is_there_is_reported_by_the_next_one(machine: Machine) -> None:
    platform, instance, late = machine.platform, new_id(), new_id()
    machine.start()
    platform.want(instance, spec("echo up; while ! test -e go; do sleep 0.02; done; echo down; exit 9"))
    platform.log_has(instance, b"up")
    assert machine.end() == 0  # told to end it ends at once, and what runs runs on
    (machine.folder(instance) / "work/go").touch()
    platform.want(late, spec("echo late"))
    until_ended(instance)
    machine.start()
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["by_itself"]) == (9, True)
    assert platform.log_has(instance, b"down") == b"up\ndown\n"
    assert platform.phase(late, "gone")["exit_code"] == 0


def until_ended(instance: str) -> None:
    """Wait until nothing of `instance` runs."""
    deadline = time.monotonic() + WITHIN_S
    while marked(instance):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_keeper_killed_while_no_agent_is_there_leaves_nothing_running(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    machine.start()
    platform.want(instance, spec(f"setsid sleep 100 & echo up; {LOOP}"))
    platform.log_has(instance, b"up")
    machine.end(signal.SIGKILL)
    os.kill(claim_of(machine, instance)["pid"], signal.SIGKILL)
    assert marked(instance)
    machine.start()
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["by_itself"], gone["detail"]) == (None, None, "keeper lost")
    assert marked(instance) == []


def claim_of(machine: Machine, instance: str) -> dict[str, int]:
    """Return the claim on `instance`."""
    found: dict[str, int] = json.loads((machine.folder(instance) / records.CLAIM).read_text())
    return found


def leave_folder(machine: Machine, instance: str, claim: dict[str, object] | None) -> Path:
    """Lay out what an earlier agent left of `instance`."""
    folder = machine.folder(instance)
    folder.mkdir(parents=True)
    if claim:
        records.write(str(folder), records.CLAIM, claim)
        records.write(str(folder), records.STATUS, {"phase": "running"})
    return folder


def test_after_a_restart_of_the_host_nothing_of_before_is_thought_to_run(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    leave_folder(machine, instance, {"boot": "another", "pid": os.getpid(), "start": start_of(os.getpid())})
    platform.want(instance, spec("echo twice"))
    machine.start()
    gone = platform.phase(instance, "gone")
    assert (gone["exit_code"], gone["by_itself"], gone["detail"]) == (None, None, "host restarted")
    assert instance not in platform.logs


def test_a_pid_used_again_is_not_taken_for_the_keeper(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        claim = {"boot": processes.boot_id(), "pid": stranger.pid, "start": start_of(stranger.pid) - 1}
        leave_folder(machine, instance, dict(claim))
        platform.stop(instance)
        machine.start()
        assert platform.phase(instance, "gone")["detail"] == "keeper lost"
        assert stranger.poll() is None
        stranger.kill()


def start_of(pid: int) -> int:
    """Return the start tick of a process that runs."""
    process = processes.find(pid)
    assert process is not None
    return process.start


def test_an_order_that_an_agent_died_over_is_started_once(machine: Machine) -> None:
    platform, instance = machine.platform, new_id()
    leave_folder(machine, instance, None)
    platform.want(instance, spec("echo once"))
    machine.start()
    platform.phase(instance, "gone")
    assert platform.log_has(instance, b"once") == b"once\n"


def test_an_order_that_an_agent_died_over_and_nobody_wants_is_reported_as_gone(machine: Machine) -> None:
    instance = new_id()
    leave_folder(machine, instance, None)
    machine.start()
    assert machine.platform.phase(instance, "gone")["detail"] == "It was stopped before it started."


def test_of_several_keepers_of_one_instance_one_runs_it(tmp_path: Path) -> None:
    folder = tmp_path / new_id()
    folder.mkdir()
    task = {"command": "echo once; sleep 0.3", "exit_command": "", "grace_s": 1, "env": {}}
    records.write(str(folder), records.SPEC, {**task, "storage_root": str(tmp_path), "folders": []})
    keepers = [subprocess.Popen([*PYTHON, CALL, ROOT, str(folder)]) for _ in range(4)]
    assert [keeper.wait(WITHIN_S) for keeper in keepers] == [0, 0, 0, 0]
    assert (folder / records.LOG).read_text() == "once\n"
    exit_record = records.read(str(folder), records.EXIT)
    assert exit_record is not None
    assert exit_record["exit_code"] == 0


def test_a_keeper_told_to_end_before_it_looked_never_starts_the_command(tmp_path: Path) -> None:
    folder = tmp_path / new_id()
    folder.mkdir()
    task = {"command": "echo never", "exit_command": "echo never", "grace_s": 1, "env": {}}
    records.write(str(folder), records.SPEC, {**task, "storage_root": str(tmp_path), "folders": []})
    keeper = os.posix_spawn(
        PYTHON[0], [*PYTHON, CALL, ROOT, str(folder)], {}, setsigmask=[signal.SIGTERM, signal.SIGCHLD]
    )
    os.kill(keeper, signal.SIGTERM)
    assert os.waitpid(keeper, 0)[1] == 0
    exit_record = records.read(str(folder), records.EXIT)
    assert exit_record is not None
    assert (exit_record["by_itself"], exit_record["detail"]) == (False, records.STOPPED_EARLY)
    assert not (folder / records.LOG).exists()


def test_a_task_that_spoils_its_records_harms_no_other(machine: Machine) -> None:
    platform, spoilt, other, unending = machine.platform, new_id(), new_id(), new_id()
    machine.start()
    platform.want(other, spec(f"echo up; {LOOP}", cards=[1]))
    platform.log_has(other, b"up")
    in_the_way = "mkdir -p ../exit.json/full ../exit.json.$PPID; rm ../status.json; mkfifo ../status.json"
    platform.want(unending, spec(f"{in_the_way}; exit 5", cards=[2]))
    platform.want(spoilt, spec("rm -f ../status.json; mkdir ../status.json; rm ../log; mkdir ../log; exit 4"))
    assert platform.phase(spoilt, "gone")["exit_code"] == 4
    assert platform.phase(unending, "gone")["exit_code"] == 5
    machine.end()
    machine.start()
    before = len(platform.reports)
    platform.until(lambda: len(platform.reports) > before)
    assert platform.phase(other, "running")
    assert platform.phase(unending, "gone")["exit_code"] == 5


@pytest.mark.parametrize(
    "spoil", ['rm -rf "$(dirname "$PWD")"', "rm ../claim.json", 'mv "$(dirname "$PWD")" ../../x']
)
def test_what_runs_without_records_is_ended_before_it_is_called_gone(machine: Machine, spoil: str) -> None:
    platform, instance = machine.platform, new_id()
    machine.start()
    platform.want(instance, spec(f"{spoil}; echo $$ >$TAIJI_TASK_DIR/spoilt; {LOOP}"))
    platform.until((machine.storage / "ads/task-1/spoilt").exists)
    machine.end(signal.SIGKILL)
    platform.stop(instance)
    machine.start()
    assert platform.phase(instance, "gone")
    assert marked(instance) == []


def test_what_nobody_can_read_is_not_thought_to_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_folder: str, _name: str) -> None:
        raise PermissionError(13, "Permission denied")

    kept = Kept(tmp_path / new_id(), 1000)
    assert kept.seen is Seen.PREPARED
    monkeypatch.setattr(records, "read", fail)
    assert not kept.look(processes.boot_id())
    assert (kept.seen, kept.exit) == (Seen.LIVE, None)


def test_a_host_has_one_agent(machine: Machine) -> None:
    held = lock(machine.state)
    with pytest.raises(SystemExit, match=f"Another agent works in {machine.state}"):
        lock(machine.state)
    os.close(held)
    os.close(lock(machine.state))


def test_what_stands_in_a_records_place_is_read_as_none_and_gives_way(tmp_path: Path) -> None:
    handles = len(os.listdir("/proc/self/fd"))
    (tmp_path / "exit.json/full").mkdir(parents=True)
    os.mkfifo(tmp_path / "status.json")
    for name in (records.EXIT, records.STATUS):
        assert records.read(str(tmp_path), name) is None
        records.write(str(tmp_path), name, {"a": 1})
        assert records.read(str(tmp_path), name) == {"a": 1}
    assert len(os.listdir("/proc/self/fd")) == handles
    assert len(list(tmp_path.iterdir())) == 3  # both, and what stood there


def test_a_record_that_cannot_be_written_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(OSError, match="No space"):
                records.write(str(tmp_path), records.EXIT, {})
    assert list(tmp_path.iterdir()) == []
