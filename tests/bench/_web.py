"""The web process of the product, as benchmarks start it, and what it used of a core."""

import contextlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from launch import programs
from launch.places import ROOT, Places
from tests.system.product import free_port

START_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def web() -> Iterator[tuple[int, int]]:
    """Start the web process as the product does; yield its port and its id."""
    data = Path(os.environ["TAIJI_DATA"])
    places = Places(data=data, run=data / "run", bind="127.0.0.1", port=free_port())
    program = programs.all_of(places, [])["web"]
    process = subprocess.Popen(program.argv, cwd=ROOT, env=os.environ | program.env)
    try:
        _wait(places.port, process)
        yield places.port, process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz/", timeout=5).close()
            return
        time.sleep(0.1)
    sys.exit("The web process does not come up.")


def cpu_s(pid: int) -> float:
    """Return the seconds of a core that the process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS
