"""Try the properties on other examples than the checks do, at random, for as long as one likes."""

import random
import subprocess
import time

from launch.places import ROOT
from launch.steps import PYTHON
from launch.words import Refusal

WAY_OUT = "as in `script/test --explore 30`"


def minutes(arguments: list[str]) -> float:
    """Return for how long to explore, as the arguments say; raises Refusal."""
    match arguments:
        case ["--explore", number]:
            try:
                found = float(number)
            except ValueError:
                raise Refusal(f"--explore takes a number of minutes, not {number}, {WAY_OUT}.") from None
            if 0 < found < float("inf"):
                return found
            raise Refusal(f"--explore takes more than 0 minutes, {WAY_OUT}.")
    raise Refusal(f"--explore takes a number of minutes and stands alone, {WAY_OUT}.")


def explore(minutes: float, pytest: list[str], env: dict[str, str]) -> int:
    """Run the tests that draw examples again and again, each time from another seed; stop at the first failure."""
    ends = time.monotonic() + 60 * minutes
    while True:
        seed = random.SystemRandom().randrange(10**9)
        command = [str(PYTHON), "-m", *pytest, "--only-drawn", "--hypothesis-profile=explore"]
        print(f"--- seed {seed}", flush=True)
        done = subprocess.run([*command, f"--hypothesis-seed={seed}"], cwd=ROOT, env=env)
        if done.returncode != 0:
            print("What failed is kept, so the next run begins with it; keep it for good as an @example.")
            return done.returncode
        if time.monotonic() >= ends:
            return 0
