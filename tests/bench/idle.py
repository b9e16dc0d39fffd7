"""What the group uses when nobody asks anything of it: a share of one core, and memory."""

import os
import tempfile
import time
from pathlib import Path

from launch import group
from tests.system.product import Product

SETTLE_S, MEASURE_S = 10.0, 30.0
TICKS = os.sysconf("SC_CLK_TCK")


def run() -> dict[str, float | int]:
    """Start a product with the small world, let it settle, and watch it."""
    with tempfile.TemporaryDirectory(prefix="taiji-bench-") as folder:
        product = Product(Path(folder) / "data")
        try:
            product.up()
            time.sleep(SETTLE_S)
            pids = [int(group.group_lock(product.places).read_text()), *product.members()]
            before, began = sum(map(_cpu_s, pids)), time.monotonic()
            time.sleep(MEASURE_S)
            used = sum(map(_cpu_s, pids)) - before
            took = time.monotonic() - began
            memory = sum(map(_memory_mib, pids))
        finally:
            product.clear_away()
    return {"processes": len(pids), "cpu_percent": round(100 * used / took, 2), "memory_mib": round(memory)}


def _cpu_s(pid: int) -> float:
    """Return the seconds of a core that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def _memory_mib(pid: int) -> float:
    """Return a process's own share of memory (PSS: what several share is counted once), in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
