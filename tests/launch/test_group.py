"""The description of the group, and what a program of it is."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch import group, locks, member, programs
from launch.places import ROOT, Places
from launch.programs import Agent, Program
from tests.patience import WITHIN_S


@pytest.fixture
def here(tmp_path: Path) -> Places:
    data = tmp_path / "dä ta; 50% #1"
    for folder in (data / "run", data / "logs"):
        folder.mkdir(parents=True)
    return Places(data=data, run=data / "run", bind="127.0.0.1", port=8765)


def test_the_programs_are_valkey_web_worker_beat_and_the_agents(
    here: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    names = list(programs.all_of(here, [Agent(name="sim-p40", simulate="P40:8")]))
    assert names == ["valkey", "web", "worker", "beat", "agent-sim-p40"]


def test_an_outside_redis_leaves_valkey_out(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    assert "valkey" not in programs.all_of(here, [])


def test_agents_do_not_get_the_secrets_of_the_platform(here: Places) -> None:
    agent = programs.all_of(here, [Agent(name="gpu7")])["agent-gpu7"]
    assert {"TAIJI_SECRET_KEY", "TAIJI_VAULT_KEYS", "TAIJI_JOIN_TOKEN", "DATABASE_URL"} <= set(agent.unset)
    assert "--simulate" not in agent.argv


def test_simulated_hosts_have_addresses_of_their_own(here: Places) -> None:
    agents = [Agent(name="sim-p40", simulate="P40:8"), Agent(name="sim-p40-2", simulate="P40:8")]
    found = programs.all_of(here, agents)
    addresses = [
        argv[argv.index("--address") + 1] for argv in (found[f"agent-{a.name}"].argv for a in agents)
    ]
    assert addresses == ["127.0.0.1", "127.0.0.2"]


def test_supervisor_reads_the_description_in_a_folder_of_odd_letters(
    here: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    from supervisor.options import ServerOptions

    group.write(here, programs.all_of(here, [Agent(name="sim-p40", simulate="P40:8")]))
    for name, value in group.environment(here).items():
        monkeypatch.setenv(name, value)
    options = ServerOptions()
    options.realize(["-c", str(here.run / "supervisord.conf"), "-n"])
    assert options.logfile == str(here.logs / "supervisord.log")
    product = {config.name: config for config in options.process_group_configs}["product"]
    assert {one.name: one.stdout_logfile for one in product.process_configs}["web"] == str(
        here.logs / "web.log"
    )


def member_of(here: Places, name: str) -> "subprocess.Popen[bytes]":
    """Start a program of the group by a parent that can be killed."""
    argv = [sys.executable, "-I", "-S", str(ROOT / "launch" / "member.py"), name]
    parent = f"import subprocess, time; subprocess.Popen({argv!r}); time.sleep(60)"
    env = {**os.environ, "TAIJI_RUN": str(here.run), "TAIJI_MEMBERS_LOCK": str(group.members_lock(here))}
    return subprocess.Popen([sys.executable, "-c", parent], env=env)


def test_a_program_ends_when_its_parent_is_killed_and_its_lock_is_free_then(here: Places) -> None:
    group.write(here, {"sleeper": Program(argv=["/bin/sleep", "60"])})
    parent = member_of(here, "sleeper")
    lock = group.members_lock(here)
    deadline = time.monotonic() + WITHIN_S
    while not locks.holders(lock) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(locks.holders(lock)) == 1
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert locks.is_free(lock, wait_s=WITHIN_S)


def test_down_while_the_group_is_being_started_signals_the_start_and_nobody_else(here: Places) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as stranger:
        group.group_lock(here).write_text(f"{stranger.pid}\n")  # the last supervisor's id, another's by now
        code = (
            "import sys, time; from pathlib import Path; from launch import group, places; "
            "data = Path(sys.argv[1]); "
            "held = group.take(places.Places(data=data, run=data / 'run', bind='', port=1)); "
            "print('held', flush=True); time.sleep(60)"
        )
        command = [sys.executable, "-c", code, str(here.data)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as start:
            assert start.stdout
            assert start.stdout.readline() == b"held\n"
            assert group.stop(here)
            assert start.wait() == -signal.SIGTERM
        assert stranger.poll() is None
        stranger.kill()


def test_a_program_gets_its_own_environment_and_umask(here: Places, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    script = f"import os; open({out!r}, 'w').write(repr((os.environ.get('A'), os.environ.get('B'))))"
    program = Program(argv=[sys.executable, "-c", script], env={"A": "1"}, unset=("B",))
    group.write(here, {"one": program})
    env = {
        **os.environ,
        "B": "2",
        "TAIJI_RUN": str(here.run),
        "TAIJI_MEMBERS_LOCK": str(group.members_lock(here)),
    }
    subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "launch" / "member.py"), "one"], env=env, check=True
    )
    assert (tmp_path / "out").read_text() == "('1', None)"
    assert (tmp_path / "out").stat().st_mode & 0o077 == 0


def test_a_program_that_ended_just_now_waits_before_it_starts_again(
    here: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    member._wait_for_turn(here.run / "web.started")
    member._wait_for_turn(here.run / "web.started")
    assert len(slept) == 1
    assert 1.5 < slept[0] <= member.RETRY_S


def test_the_description_of_the_programs_is_for_their_owner_alone(here: Places) -> None:
    group.write(here, programs.all_of(here, []))
    path = here.run / "members.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(path.read_text())["beat"]) == {"argv", "env", "unset", "umask", "stop_s"}
