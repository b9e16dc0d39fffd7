"""The examples of the client do what they say: a sweep, and the lines of the pipelines."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.models import Task
from quotas.models import ApiToken
from tests.agent.conftest import ROOT
from tests.life.house import House

EXAMPLES = ROOT / "docs" / "examples"
RATES = ("0.1", "0.03", "0.01")


def environment(house: House) -> dict[str, str]:
    """Return what a script of ann's needs; the `taiji` on its path is this checkout's."""
    house.world.business("ads", P40=16)
    token = ApiToken.objects.issue(house.world.user("ann", "ads"), "pipeline")
    folder = house.folder / "bin"
    folder.mkdir()
    (folder / "taiji").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jobs.client.command "$@"\n')
    (folder / "taiji").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"TAIJI_URL": house.url, "TAIJI_TOKEN": token, "PYTHONPATH": str(ROOT), "PATH": path}


def test_a_sweep_runs_its_tasks_at_once_and_names_the_best(house: House) -> None:
    house.host("h1", 4)
    line = [sys.executable, str(EXAMPLES / "sweep.py"), "ads", *RATES]
    done = subprocess.run(line, env=environment(house), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "best: lr=0.03, loss 0.5000"
    assert Task.objects.filter(state="succeeded", wanted_class="elastic").count() == len(RATES)


def lines(name: str) -> str:
    """Return the one line of a pipeline that calls `taiji`."""
    document: dict[str, Any] = yaml.load((EXAMPLES / "ci" / name).read_text(), yaml.BaseLoader)
    if name.startswith("github"):
        said = [step.get("run", "") for step in document["jobs"]["gpu"]["steps"]]
    else:
        said = document["gpu tests"]["script"]
    [line] = [line for line in said if line.startswith("taiji ")]
    return str(line)


@pytest.mark.parametrize(("name", "failing"), [("github-actions.yml", False), ("gitlab-ci.yml", True)])
def test_a_pipeline_ends_as_its_tests_on_the_card_do(
    house: House, tmp_path: Path, name: str, failing: bool
) -> None:
    house.host("h1")
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "task.yaml").write_text((EXAMPLES / "ci" / "task.yaml").read_text())
    wanted = "assertTrue" if not failing else "assertFalse"
    test = (
        f"import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.{wanted}(True)\n"
    )
    (checkout / "test_it.py").write_text(test)
    env = environment(house) | {"GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1", "CI_JOB_ID": "1"}
    done = subprocess.run(
        ["sh", "-ec", lines(name)], env=env, cwd=checkout, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == int(failing), done.stderr
    assert "test_it (test_it.T" in done.stdout
