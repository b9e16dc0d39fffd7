"""Steps of the installation: commands whose failure becomes one sentence, and fingerprints of files."""

import hashlib
import subprocess
from pathlib import Path

from launch.places import ROOT
from launch.words import Refusal

VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
NO_NETWORK = (
    "Failed to fetch",
    "dns error",
    "Connection refused",
    "NewConnectionError",
    "Temporary failure in name resolution",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
)


def run(command: list[str], *, what: str, env: dict[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Run a step; its failure is a refusal that quotes its last words.

    The step inherits the lock of the installation: where we are killed it goes on, and the next start has
    to wait for it instead of writing beside it.
    """
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, errors="replace", close_fds=False
    )
    if done.returncode == 0:
        return
    output = (done.stderr + done.stdout).strip()
    if any(sign in output for sign in NO_NETWORK):
        raise Refusal(
            f"{what} needs the network, and the package index did not answer: "
            "check the connection (or PIP_INDEX_URL) and start again, it goes on from there."
        )
    words = "\n".join(f"    {line}" for line in output.splitlines()[-8:])
    raise Refusal(f"{what} failed with exit code {done.returncode}; its last words:\n{words}")


def succeeds(command: list[str], *, cwd: Path = ROOT) -> bool:
    """Say whether a command is there and ends well."""
    try:
        return subprocess.run(command, capture_output=True, cwd=cwd).returncode == 0
    except OSError:
        return False


def digest(path: Path) -> str:
    """Return a fingerprint of a file's content, the empty text where there is no file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
