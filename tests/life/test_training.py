"""A training that is evicted again and again comes to the result that it would have come to alone."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.agent.conftest import ROOT
from tests.life.house import House

SCRIPT = ROOT / "docs/examples/train.py"
STEPS = 40_000


def alone(folder: Path) -> str:
    """Return the last line of a training that nobody disturbs."""
    folder.mkdir()
    env = {**os.environ, "TAIJI_TASK_DIR": str(folder)}
    command = [sys.executable, str(SCRIPT), "--steps", str(STEPS)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_evictions_and_a_killed_agent_do_not_change_the_result(house: House, tmp_path: Path) -> None:
    host = house.host("h1", 2)
    house.policy(pull_up_backoff_s=0.1)
    script = house.storage / "train.py"
    shutil.copy(SCRIPT, script)
    training = house.submit(
        f"{sys.executable} {script} --steps {STEPS} --pause 0.1 --save-every 0.2",
        is_elasticity=True,
        enable_evicted_pulled_up=True,
    )
    for number in (1, 2):
        house.until(lambda: training.attempts.count() == number)  # noqa: B023 - called at once
        house.printed(training, "begins at step 0\n" if number == 1 else "goes on from step")
        house.reach(training, "running")
        if number == 2:
            host.end(signal.SIGKILL)
            host.start()
        urgent = house.submit("echo urgent", host_gpu_num=2)
        house.reach(urgent, "succeeded")
        assert "told to leave: saved step" in house.printed(training, "told to leave", number=number)
    house.reach(training, "succeeded")
    assert [one.outcome for one in training.attempts.order_by("number")] == [
        "evicted",
        "evicted",
        "succeeded",
    ]
    last = house.printed(training, "done after")
    first = int(last.split("goes on from step ")[1].split()[0])
    assert 0 < first < STEPS, "the last attempt did not begin anew, and had something left to do"
    assert last.splitlines()[-1] == alone(tmp_path / "alone")


def written(folder: Path) -> int:
    """Return when the checkpoint was written, in nanoseconds; 0: never."""
    path = folder / "checkpoint.json"
    return path.stat().st_mtime_ns if path.exists() else 0


def test_a_checkpoint_is_whole_however_its_writer_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    env = {**os.environ, "TAIJI_TASK_DIR": str(folder)}
    command = [sys.executable, str(SCRIPT), "--steps", str(STEPS)]
    for _ in range(3):
        before = written(folder)
        with subprocess.Popen([*command, "--save-every", "0"], env=env, stdout=subprocess.PIPE) as run:
            while written(folder) == before:
                assert run.poll() is None
            run.kill()  # while it writes one checkpoint after the other
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("goes on from step ")
    assert lines[-1] == alone(tmp_path / "alone")
