"""Shells complete the words of the command."""

import os
import subprocess
import sys

import pytest

TAIJI = "import sys; sys.argv = ['taiji']; from jobs.client.command.app import main; main()"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_word_that_was_begun_is_completed(shell: str) -> None:
    asked = {
        "_TAIJI_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "taiji su",
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": "taiji su",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-c", TAIJI], env=os.environ | asked, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert {"submit", "submit-many"} <= set(done.stdout.replace('"', " ").replace(":", " ").split())
    assert "list" not in done.stdout.split()
