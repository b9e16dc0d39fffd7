"""Recorded work from outside the repository, where it is at hand."""

import csv
import gzip
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACES = Path(os.environ.get("TAIJI_SHARED") or ROOT.parent / "shared") / "traces"
Rows = list[dict[str, str]]


class Absent(Exception):
    """The traces are not on this machine."""


def rows(name: str) -> Rows:
    """Return the rows of a trace, packed with gzip or not; Absent says how to name the folder."""
    path = TRACES / name
    if not path.is_file():
        raise Absent(f"the traces are not at {TRACES}: set TAIJI_SHARED to the folder that holds them")
    open_it = gzip.open if path.suffix == ".gz" else open
    with open_it(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def repeated(jobs: Rows, number: int) -> Iterator[dict[str, str]]:
    """Give so many jobs: the recorded ones again and again, each time as soon as the last one was submitted."""
    times = [int(job["submit_s"]) for job in jobs]
    period = max(times) - min(times) + 1
    for turn in count():
        for job, submitted in zip(jobs, times, strict=True):
            if number == 0:
                return
            number -= 1
            yield job | {"job_id": f"{turn}/{job['job_id']}", "submit_s": str(submitted + turn * period)}
