"""Try to break a whole installation: `python -m tests.chaos --minutes N [--seed S]`."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import django

from launch import postgres
from launch.words import Refusal
from tests.chaos.deeds import deeds

if TYPE_CHECKING:
    from tests.chaos.course import Result

LONGEST = 24 * 60
# What a minute brings on average; with less than a tenth of that a run shows nothing, and says so.
EXPECTED = {"kill": 14, "starts": 50, "evictions": 10}
SHOWN = {
    "kill": "kills",
    "stop": "stops and continues",
    "line": "lines refused, swallowed or slow",
    "cut": "connections cut",
    "clock": "clocks moved",
    "fewer_cards": "hosts with fewer cards",
    "flush": "brokers flushed",
    "submit": "tasks submitted",
    "starts": "starts",
    "evictions": "evictions",
    "pull_ups": "pull-ups",
    "lost": "attempts lost with their hosts",
    "stop_task": "cancels",
}


def main(arguments: list[str]) -> int:
    """Run it; 0: everything held, 1: something did not, or there was too little to see."""
    options = _options(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    if options.list:
        for deed in deeds(seed, options.minutes):
            print(f"{deed.at:8.2f}  {deed}")
        return 0
    print(f"Seed {seed}, {options.minutes:g} minutes.", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):  # nothing of the installation may be left
        signal.signal(number, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="taiji-chaos-"))
    result = _run(seed, options.minutes, folder)
    good = _say(result, options.minutes, seed)
    if good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"The logs of all programs: {folder / 'logs'}", flush=True)
    return 0 if good else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(seed: int, minutes: float, folder: Path) -> "Result":
    with postgres.short_folder() as place:
        cluster = postgres.make(place)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "taiji_site.settings",
            "TAIJI_DATA": str(folder / "data"),
            "DATABASE_URL": cluster.url,
            "TAIJI_SECRET_KEY": "only for reading rows, nothing is signed with it",
        }
        django.setup()
        _without_pool()
        # Only here: what reads rows can be imported only when Django knows the database.
        from tests.chaos.course import run

        return run(seed, minutes, folder, cluster)


def _without_pool() -> None:
    """Have connections of our own: a pool waits half a minute for a server that is away."""
    from django.db import connections

    connections.databases["default"]["OPTIONS"].pop("pool", None)


def _say(result: "Result", minutes: float, seed: int) -> bool:
    """Print what was done and seen; return whether all is well."""
    for key, words in SHOWN.items():
        print(f"  {result.counts[key]:6}  {words}")
    print(f"  {result.looks:6}  looks at rows and processes")
    print(f"  {result.rest_s:6.0f}  seconds until everything had come to rest")
    if result.violation is not None:
        print("\nWhat came before (seconds since the start):")
        print(result.story)
        print(f"VIOLATION of {result.violation}")  # last: where only the end of what is printed is kept
        print(f"Again: script/chaos --minutes {minutes:g} --seed {seed}")
        return False
    if few := _too_few(result.counts, minutes):
        print(f"Too little happened to show anything: {few}.")
        return False
    print("Everything held.", flush=True)
    return True


def _too_few(counts: Counter[str], minutes: float) -> str:
    few = {key: per_minute for key, per_minute in EXPECTED.items() if counts[key] < per_minute * minutes / 10}
    return ", ".join(f"{counts[key]} {SHOWN[key]} where {few[key] * minutes:g} are usual" for key in few)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/chaos",
        description="Start a whole installation, put it under random load, break its parts at random, and check "
        "all the while that no task is lost or run twice and no card given twice.",
    )
    parser.add_argument(
        "--minutes", type=_minutes, required=True, metavar="N", help="how long things are broken"
    )
    parser.add_argument(
        "--seed", type=_seed, metavar="S", help="the same number does the same deeds (default: by chance)"
    )
    parser.add_argument("--list", action="store_true", help="only print what would be done, and when")
    return parser.parse_args(arguments)


def _minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of minutes: above 0, up to {LONGEST}")
    return found


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: write a whole number, 0 or more")
    return int(text)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refusal as refusal:
        sys.exit(str(refusal))
    except KeyboardInterrupt:
        sys.exit(130)
