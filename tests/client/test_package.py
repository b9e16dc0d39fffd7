"""The client is a package of its own."""

import subprocess
from pathlib import Path

import pytest

from tests import packages

SCENARIO = "hosts: [{host: h1, gpu_num: 8}]\nevents: [{at: 0, submit: {id: t, duration_s: 60}}]\n"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python in which only the client's package is installed."""
    return packages.alone(tmp_path_factory.mktemp("alone"), "client")


def test_the_client_needs_nothing_of_the_platform(alone: Path, tmp_path: Path) -> None:
    helped = subprocess.run([alone / "bin/taiji", "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "submit" in helped.stdout
    installed = {path.name.partition("-")[0].lower() for path in (alone / "lib").glob("*/*/*.dist-info")}
    assert "django" not in installed
    package = next((alone / "lib").glob("*/*/jobs"))
    there = {path.name for path in package.iterdir()} - {"__pycache__"}
    assert there == {"__init__.py", "parse.py", "client", "management", "scheduling", "simulation"}


def test_it_simulates_where_there_is_no_platform(alone: Path, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    line = [str(alone / "bin/taiji"), "sim", "--scenario", "s.yaml"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "finished  1" in done.stdout
