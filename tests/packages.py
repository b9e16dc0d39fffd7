"""A Python in which one package of ours is installed and nothing else of the checkout is seen."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def alone(folder: Path, package: str) -> Path:
    """Install the package in `deploy/PACKAGE` into a Python of its own in `folder`; return that."""
    uv = Path(sys.executable).with_name("uv")
    tool = [str(uv), "pip", "install", "-q", "--python", str(folder / "bin/python")]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    subprocess.run([*tool, str(ROOT / "deploy" / package)], check=True, timeout=300)
    return folder
