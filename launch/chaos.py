"""Break a whole installation at random, as `tests/chaos` does, and say whether everything held."""

import subprocess
import tempfile

from launch import install, testing
from launch.places import ROOT
from launch.steps import PYTHON
from launch.words import Progress


def main(arguments: list[str]) -> int:
    """Run `script/chaos`."""
    install.ensure(Progress(), dev=True)
    with tempfile.TemporaryDirectory(prefix="taiji-chaos-") as data:
        command = [str(PYTHON), "-m", "tests.chaos", *arguments]
        return subprocess.run(command, cwd=ROOT, env=testing.environment(data)).returncode
