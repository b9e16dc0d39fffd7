"""Run the benchmarks of `tests/bench/`, print their figures, and write them as JSON."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from launch import install, testing
from launch.places import ROOT
from launch.steps import PYTHON
from launch.words import Progress, Refusal

BENCHES = ROOT / "tests" / "bench"


def main(arguments: list[str]) -> int:
    """Run `script/bench`; without a name, all of them."""
    there = sorted(path.stem for path in BENCHES.glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(prog="script/bench", description="Measure.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(there))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(there)):
        raise Refusal(f"There is no benchmark {', '.join(unknown)}; there are {', '.join(there)}.")

    install.ensure(Progress(), dev=True)
    figures = {name: _run(name) for name in options.names or there}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _run(name: str) -> dict[str, float]:
    """Run one benchmark in a process of its own, so that none measures what another left behind."""
    with tempfile.TemporaryDirectory(prefix="taiji-bench-") as folder:
        file = Path(folder) / "figures.json"
        command = [str(PYTHON), "-m", "tests.bench", name, str(file)]
        if subprocess.run(command, cwd=ROOT, env=testing.environment(folder)).returncode != 0:
            raise Refusal(f"The benchmark {name} failed.")
        found: dict[str, float] = json.loads(file.read_text())
    print(name)
    for key, value in found.items():
        print(f"    {key:<20} {value:g}", flush=True)
    return found
