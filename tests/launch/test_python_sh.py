"""The choice of a Python by `launch/python.sh`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launch.places import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout of nothing but the choice, whose commands print which Python they got."""
    launch = tmp_path / "a checkout ü" / "launch"
    launch.mkdir(parents=True)
    shutil.copy(ROOT / "launch" / "python.sh", launch)
    (launch / "__main__.py").write_text("import sys; print('ran', *sys.argv[1:])")
    return launch.parent


def python(folder: Path, name: str, answer: str) -> Path:
    """Make a stand-in that answers every call with `answer`."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{answer}"\n')
    path.chmod(0o755)
    return path


def start(checkout: Path, path: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run the choice with the words `up` and `a b`."""
    command = ["/bin/sh", str(checkout / "launch" / "python.sh"), "up", "a b"]
    return subprocess.run(command, env={"PATH": path, **env}, capture_output=True, text=True)


def test_an_old_python_is_refused_in_one_sentence_that_names_it(checkout: Path, tmp_path: Path) -> None:
    old = python(tmp_path / "bin", "python3", "3.9.2 old")
    tools = "/bin:/usr/bin"
    done = start(checkout, f"{tmp_path / 'bin'}:{tools}", TAIJI_PYTHON=str(old))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"needs Python 3.11 or newer ({old} is 3.9.2)" in done.stderr


def test_the_newest_is_found_behind_an_old_one(checkout: Path, tmp_path: Path) -> None:
    python(tmp_path / "bin", "python3", "3.9.2 old")
    python(tmp_path / "bin", "python3.12", "3.12.1 good")
    (tmp_path / "only").mkdir()
    done = start(checkout, f"{tmp_path / 'bin'}:/bin:/usr/bin")
    # The stand-in for 3.12 answers its own call too; a machine whose /usr/bin/python3 is new takes that one.
    assert done.returncode == 0
    assert done.stdout in {"3.12.1 good\n", "ran up a b\n"}


def test_a_python_without_venv_is_refused_with_its_debian_package(checkout: Path, tmp_path: Path) -> None:
    bare = python(tmp_path / "bin", "python3", "3.11.2 bare")
    done = start(checkout, "/bin:/usr/bin", TAIJI_PYTHON=str(bare))
    if shutil.which("uv", path="/bin:/usr/bin"):
        assert done.returncode == 0  # uv makes environments without it
    else:
        assert "package python3-venv" in done.stderr


def test_arguments_with_blanks_arrive_whole(checkout: Path, tmp_path: Path) -> None:
    real = tmp_path / "a python"
    real.symlink_to(Path(sys.executable).resolve())
    done = start(checkout, "/bin:/usr/bin", TAIJI_PYTHON=str(real))
    assert done.stdout == "ran up a b\n"
