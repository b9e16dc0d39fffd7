"""What the commands say: progress with its seconds, and refusals of one sentence."""

import sys
import time
from pathlib import Path


class Refusal(Exception):
    """A reason not to go on, as one sentence for the person at the terminal."""


class Progress:
    """Lines that say what is being done and how long it has taken so far."""

    def __init__(self) -> None:
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds since the command began."""
        return time.monotonic() - self.began

    def __call__(self, sentence: str) -> None:
        """Print one line at once, also where the output is a pipe."""
        print(f"[{self.seconds:5.1f} s] {sentence}", flush=True)


def last_lines(path: Path, number: int = 15) -> str:
    """Return the last lines of a log, indented; the empty text where there is none."""
    try:
        lines = path.read_text(errors="replace").splitlines()[-number:]
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in lines)


def warn(sentence: str) -> None:
    """Print a sentence where errors go."""
    print(sentence, file=sys.stderr, flush=True)
