"""Simulate all of it and write docs/benchmarks.md with its pictures."""

from pathlib import Path

from jobs.management import picture
from jobs.simulation.timeline import timeline
from tests.sharing import classes, page, walls
from tests.sharing.outcome import STRICT_FIFO, Outcome

DOCS = Path(__file__).resolve().parents[2] / "docs"
FASTER = (1.25, 1.5)
SPANS = 200
MEASURED = "\n## What is measured\n"  # begins the part of the page that is written by hand


def main() -> None:
    """Write the page."""
    work, plain = walls.compare({}), walls.compare(STRICT_FIFO)
    two = classes.compare()
    faster = {pace: walls.compare({}, pace) for pace in FASTER}
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    _draw(work.shared, "walls", "Philly: quotas and auto jobs on 144 hosts")
    _draw(two.shared, "classes", "chronus_mix1: strict jobs high, best jobs elastic")
    written = DOCS / "benchmarks.md"
    _simulated, heading, measured = written.read_text().partition(MEASURED)
    written.write_text(page.text(work, plain, faster, two) + heading + measured)


def _draw(outcome: Outcome, name: str, title: str) -> None:
    course = timeline(outcome.simulators[0], SPANS)
    picture.draw(course, DOCS / "benchmarks" / f"{name}.svg", title)


main()
