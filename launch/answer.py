"""Whether the product answers, and if it does not, which of its programs is to blame."""

import json
import os
import subprocess
import time
import urllib.request
from collections import defaultdict
from dataclasses import dataclass

from launch import group
from launch.places import Places
from launch.words import Progress, Refusal, last_lines

PATIENCE_S = 90.0
RESTARTS = 4  # a program that was started so often in one start of the group will not make it


def wait(here: Places, supervisor: "subprocess.Popen[bytes]", agents: list[str], say: Progress) -> None:
    """Return when since now a pass has ended and each of `agents` has reported; else raise Refusal.

    A pass needs beat, Valkey or the hint, worker and database; hosts and passes are read from the web server.
    """
    began, missing = time.time(), ["the web server"]
    restarts = Restarts(here)
    while time.time() < began + PATIENCE_S:
        if supervisor.poll() is not None:
            raise Refusal(f"The supervisor ended at once:\n{last_lines(here.logs / 'start.log')}")
        before, missing = missing, _missing(here, agents, began)
        if not missing:
            return
        if missing != before:
            say("Waiting for " + ", ".join(missing))
        restarts.look()
        time.sleep(0.1)
    raise Refusal(_blame(here, ["web", "worker", *(f"agent-{name}" for name in agents)]))


def _missing(here: Places, agents: list[str], since: float) -> list[str]:
    """Return what has not shown itself since then."""
    health = read(here)
    if health is None:
        return ["the web server"]
    silent = [name for name in agents if health.seen.get(name, 0.0) < since]
    return [
        *(["the first pass"] if health.passed < since else []),
        *(f"the cards of {name}" for name in silent),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What the web server says: when (epoch seconds) the last pass ended and each host last reported."""

    passed: float
    seen: dict[str, float]


def read(here: Places) -> Health | None:
    """Return the product's health, or None where the web server or its database does not answer."""
    token = (here.data / "join-token").read_text().strip()
    request = urllib.request.Request(f"{here.url}/healthz/", headers={"Authorization": f"Bearer {token}"})
    # A proxy of the environment has no business between this machine and itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as response:
            found = json.load(response)
        return Health(passed=found["passed"], seen=found["seen"])
    except (OSError, ValueError, KeyError):
        return None


class Restarts:
    """How often each program was started: one that ends again and again is named early."""

    def __init__(self, here: Places) -> None:
        """Begin to count."""
        self.here = here
        self.pids: dict[str, set[int]] = defaultdict(set)
        self.looked = time.monotonic()

    def look(self) -> None:
        """Count, once a second; raises Refusal for a program that will not make it."""
        if time.monotonic() < self.looked + 1.0:
            return
        self.looked = time.monotonic()
        for status in group.statuses(self.here):
            self.pids[status.name].add(status.pid)
            if len(self.pids[status.name] - {0}) >= RESTARTS:
                raise Refusal(_blame(self.here, [status.name]))


def _blame(here: Places, names: list[str]) -> str:
    logs = "\n".join(f"  {name}.log\n{last_lines(here.logs / f'{name}.log')}" for name in names)
    return f"The product does not come up ({', '.join(names)}); the last lines of {here.logs}{os.sep}\n{logs}"
