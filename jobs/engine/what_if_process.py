"""Simulate in a process of its own, at low priority: it tells how far it is, and can be ended at any time."""

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from jobs.simulation.job import Setup
from jobs.simulation.what_if import compare

ROOT = Path(__file__).parents[2]
NICE = 15
LONGEST_S = 3600.0
TELL_EVERY_S = 1.0
Given = tuple[Setup, Setup]


class Failed(Exception):
    """The process gave no answer."""


class Canceled(Exception):
    """Nobody wants the answer any more."""


def run(before: Setup, after: Setup, tell: Callable[[float], bool]) -> dict[str, Any]:
    """Return the figures of both; `tell` hears each second how much is done, and says whether to go on.

    Raises Canceled where it says no, and Failed where the process did not answer: it has written why to our errors.
    """
    given: Given = (before, after)
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs.engine.what_if_process"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    limit = threading.Timer(LONGEST_S, process.kill)
    limit.start()
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        _send(process.stdin, given)
        return _listen(process.stdout, tell)
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def _send(stream: IO[bytes], given: Given) -> None:
    try:
        pickle.dump(given, stream, pickle.HIGHEST_PROTOCOL)
        stream.close()
    except BrokenPipeError as error:
        raise Failed("it ended before it was told what to do") from error


def _listen(stream: IO[bytes], tell: Callable[[float], bool]) -> dict[str, Any]:
    for line in stream:
        said = json.loads(line)
        if "result" in said:
            found: dict[str, Any] = said["result"]
            return found
        if not tell(said["done"]):
            raise Canceled
    raise Failed("it ended without an answer")


def main() -> None:
    """Read both setups from the standard input, and write lines of progress and the answer to the standard output."""
    parent = os.getppid()
    os.nice(NICE)
    before, after = pickle.load(sys.stdin.buffer)
    told = 0.0

    def tell(share: float) -> None:
        nonlocal told
        if time.monotonic() < told + TELL_EVERY_S:
            return
        told = time.monotonic()
        if os.getppid() != parent:
            sys.exit("whoever asked is gone")
        print(json.dumps({"done": share}), flush=True)

    print(json.dumps({"result": compare(before, after, tell)}), flush=True)


if __name__ == "__main__":
    main()
