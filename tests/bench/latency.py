"""From the POST of a task to its first line: as the API shows it, and as the task's own clock says."""

import statistics
import tempfile
import time
from pathlib import Path

import httpx

from tests.system.product import Product, document

TASKS = 50
PATIENCE_S = 30.0


def run() -> dict[str, float | int]:
    """Submit one task after the other to a product of its own."""
    with tempfile.TemporaryDirectory(prefix="taiji-bench-") as folder:
        product = Product(Path(folder) / "data")
        try:
            product.up()
            with product.api as api:
                _measure(api)  # the first one warms caches that the others find warm
                shown, begun = zip(*(_measure(api) for _ in range(TASKS)), strict=True)
        finally:
            product.clear_away()
    return {"tasks": TASKS, **_quantiles("", list(shown)), **_quantiles("process_", list(begun))}


def _measure(api: httpx.Client) -> tuple[float, float]:
    """Return the seconds from the POST to the line in the API's log, and to the time that the line tells."""
    began = time.time()
    answer = api.post("tasks/", json=document("date +%s.%N"))
    answer.raise_for_status()
    address = f"tasks/{answer.json()['id']}/log/"
    while time.time() < began + PATIENCE_S:
        log = api.get(address)
        if log.status_code == 200 and b"\n" in log.content:
            return time.time() - began, float(log.content.splitlines()[0]) - began
        time.sleep(0.01)
    raise TimeoutError(f"Task {answer.json()['id']} wrote nothing within {PATIENCE_S:.0f} s.")


def _quantiles(prefix: str, seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=20)
    return {f"{prefix}p50_ms": round(cuts[9] * 1000, 1), f"{prefix}p95_ms": round(cuts[18] * 1000, 1)}
