"""What runs on a real cluster: every test that uses a cluster, by the mark that it has without a word."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = """\
import pytest
from tests.kubernetes.conftest import kube, pytest_collection_modifyitems

@pytest.fixture
def world():
    return None

@pytest.fixture
def by_another(kube):
    return kube
"""
TESTS = """\
def test_one(kube):
    assert kube.server

def test_by_another(by_another):
    assert by_another.server

def test_late(request):
    request.getfixturevalue("kube")

def test_none():
    pass
"""


@pytest.mark.parametrize(
    ("chosen", "ends"),
    [("kubernetes", "2 passed, 2 deselected"), ("not kubernetes", "1 failed, 1 passed, 2 deselected")],
)
def test_what_uses_a_cluster_is_marked_and_what_hides_it_fails(
    tmp_path: Path, chosen: str, ends: str
) -> None:
    (tmp_path / "conftest.py").write_text(HERE)
    file = tmp_path / "test_four.py"
    file.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-m", chosen]
    given = {name: value for name, value in os.environ.items() if not name.startswith("TAIJI_KUBE")}
    done = subprocess.run(
        [*command, f"--config-file={ROOT / 'pyproject.toml'}", f"--basetemp={tmp_path / 'temp'}", str(file)],
        cwd=ROOT,
        env=given,
        capture_output=True,
        text=True,
    )
    assert ends in done.stdout, done.stdout + done.stderr
    if chosen != "kubernetes":
        assert "has to say so by the mark `kubernetes`" in done.stdout
