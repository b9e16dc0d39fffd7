"""Look ahead in a process of its own, at low priority, so that no pass and no request waits for it."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

from jobs.scheduling.types import Policy, Snapshot
from jobs.simulation.forecast import Forecast, forecast
from jobs.simulation.lengths import Lengths

ROOT = Path(__file__).parents[2]
NICE = 10
START_S = 60.0  # for reading, starting and answering, over what the look itself may take

Given = tuple[Snapshot, Policy, Lengths, float]


class Failed(Exception):
    """The process that looks ahead gave no forecast."""


def look(snapshot: Snapshot, policy: Policy, lengths: Lengths, look_s: float) -> Forecast:
    """Return the forecast after at most some `look_s` seconds of looking.

    Raises Failed where the process did not answer, or said something else; it has written why to our errors.
    """
    given: Given = (snapshot, policy, lengths, look_s)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "jobs.engine.foresight"],
            cwd=ROOT,
            input=pickle.dumps(given, pickle.HIGHEST_PROTOCOL),
            stdout=subprocess.PIPE,
            timeout=look_s + START_S,
            check=True,
        )
        found: Forecast = pickle.loads(done.stdout)
    except (subprocess.SubprocessError, EOFError, pickle.UnpicklingError) as error:
        raise Failed(str(error)) from error
    return found


def main() -> None:
    """Read what is given from the standard input, and write the forecast to the standard output."""
    parent = os.getppid()
    os.nice(NICE)
    given: Given = pickle.load(sys.stdin.buffer)
    snapshot, policy, lengths, look_s = given
    until = time.monotonic() + look_s

    def enough() -> bool:
        return time.monotonic() >= until or os.getppid() != parent  # an orphan's answer would reach nobody

    found = forecast(snapshot, policy, lengths, enough=enough)
    if os.getppid() == parent:
        sys.stdout.buffer.write(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
