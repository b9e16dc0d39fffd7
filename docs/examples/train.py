"""Train a small network in plain Python, and come to the same result however often the run is evicted.

    {"business_flag": "ads", "is_elasticity": true, "enable_evicted_pulled_up": true, "checkpoint_interval": "10s",
     "start_cmd": "python3 \\"$TAIJI_STORAGE/train.py\\" --steps 60000"}

The file has to lie in the business's folder of the storage ($TAIJI_STORAGE, docs/gangs.md), or comes as uploaded code
(docs/api.md).

What makes it come back right:

- everything that the next step depends on is in the checkpoint: the weights, how many steps are done, and the
  state of the random numbers that choose the samples;
- a checkpoint is written beside the old one, brought to the disk, and put in its place in one move: whoever
  reads it finds the old one or the new one, never half of one;
- it lies in $TAIJI_TASK_DIR, which every attempt of the task sees at the same path, on whatever host;
- at SIGTERM, which an eviction sends, the step at hand is finished and a checkpoint is written at once. A run that is
  killed before it could do that goes on from the last one, and only repeats some steps.
"""

import argparse
import hashlib
import json
import math
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

HIDDEN = 8
RATE = 0.1


class Training:
    """The weights of a network with one hidden layer, and what decides its next step."""

    def __init__(self, seed: int) -> None:
        """Begin with random weights."""
        self.random = random.Random(seed)
        self.step = 0
        self.loss = 1.0  # a moving mean
        self.inner = [[self.random.uniform(-1, 1) for _ in range(3)] for _ in range(HIDDEN)]
        self.outer = [self.random.uniform(-1, 1) for _ in range(HIDDEN + 1)]

    def advance(self) -> None:
        """Learn from one sample: whether a point lies inside a ring."""
        x, y = self.random.uniform(-1, 1), self.random.uniform(-1, 1)
        wanted = 1.0 if 0.3 < math.hypot(x, y) < 0.8 else 0.0
        inputs = (x, y, 1.0)
        hidden = [math.tanh(sum(w * v for w, v in zip(row, inputs, strict=True))) for row in self.inner]
        total = sum(w * h for w, h in zip(self.outer, [*hidden, 1.0], strict=True))
        said = 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))
        error = said - wanted
        for unit, value in enumerate(hidden):
            slope = error * self.outer[unit] * (1 - value * value)
            self.outer[unit] -= RATE * error * value
            for place, given in enumerate(inputs):
                self.inner[unit][place] -= RATE * slope * given
        self.outer[HIDDEN] -= RATE * error
        self.loss += 0.001 * (error * error - self.loss)
        self.step += 1

    def save(self, path: Path) -> None:
        """Write a checkpoint that is whole or not there, also where the host loses power meanwhile."""
        version, numbers, gauss = self.random.getstate()
        state = {
            "step": self.step,
            "loss": self.loss,
            "inner": self.inner,
            "outer": self.outer,
            "random": [version, list(numbers), gauss],
        }
        draft = path.with_name(f"{path.name}.new")
        with draft.open("w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def load(self, path: Path) -> bool:
        """Go on from a checkpoint; return whether there was one."""
        try:
            state: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return False
        self.step, self.loss = state["step"], state["loss"]
        self.inner, self.outer = state["inner"], state["outer"]
        version, numbers, gauss = state["random"]
        self.random.setstate((version, tuple(numbers), gauss))
        return True

    def fingerprint(self) -> str:
        """Return what is the same for the same weights, to the last bit."""
        return hashlib.sha256(json.dumps([self.inner, self.outer]).encode()).hexdigest()[:16]


def main() -> int:
    """Train; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Train a small network, and go on where the last run stopped."
    )
    parser.add_argument("--steps", type=int, default=10_000_000, help="default: %(default)s, some minutes")
    parser.add_argument("--save-every", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--pause", type=float, default=0.0, metavar="SECONDS", help="wait so long after 1000 steps"
    )
    options = parser.parse_args()

    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    checkpoint = Path(os.environ.get("TAIJI_TASK_DIR", "."), "checkpoint.json")
    training = Training(options.seed)
    found = training.load(checkpoint)
    print(f"{'goes on from' if found else 'begins at'} step {training.step}", flush=True)
    saved_at = said_at = time.monotonic()
    while training.step < options.steps and not told:
        training.advance()
        if training.step % 1000 == 0:
            time.sleep(options.pause)
        now = time.monotonic()
        if now - saved_at >= options.save_every:
            training.save(checkpoint)
            saved_at = now
        if now - said_at >= 1.0:
            print(f"step {training.step} loss {training.loss:.4f}", flush=True)
            said_at = now
    training.save(checkpoint)
    if told:
        print(f"told to leave: saved step {training.step}", flush=True)
        return 128 + told[0]
    print(
        f"done after step {training.step}: loss {training.loss:.4f}, weights {training.fingerprint()}",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
