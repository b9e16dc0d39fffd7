"""A host with a real agent, whose driver a test has in its hand."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.agent.pace import LAG_AT_MOST_S
from tests.agent.conftest import Machine
from tests.agent.nvml import Nvml
from tests.agent.platform import Platform
from tests.patience import WITHIN_S

EVERY = ("--cards-every", "0.1")


LOOP = "while :; do sleep 0.05; done"


@pytest.fixture
def nvml(tmp_path: Path) -> Nvml:
    """Return the driver of a host with eight V100."""
    nvml = Nvml(tmp_path / "nvml")
    nvml.gpus(*["Tesla V100-SXM2-32GB"] * 8)
    return nvml


@pytest.fixture
def machine(machine: Machine) -> Machine:
    """Return a host that asks NVML."""
    machine.simulate = ""
    return machine


def start(machine: Machine, nvml: Nvml, *more: str, **environment: str) -> Platform:
    """Start the agent, again; return its platform once that has a report of it."""
    before = len(machine.platform.reports)
    machine.start(*EVERY, *more, **nvml.environment, **environment)
    machine.platform.until(lambda: len(machine.platform.reports) > before)
    return machine.platform


def cards(platform: Platform) -> dict[int, dict[str, Any]]:
    """Return the cards of the last report by index."""
    return {card["index"]: card for card in platform.reports[-1]["cards"]}


def states(platform: Platform) -> dict[int, str]:
    """Return their states."""
    return {index: card["state"] for index, card in cards(platform).items()}


def until(platform: Platform, wanted: dict[int, str], within_s: float = WITHIN_S) -> None:
    """Wait until cards have these states and all others are well."""
    platform.until(
        lambda: (
            platform.reports
            and (now := states(platform))
            and {index: state for index, state in now.items() if state != "ok"} == wanted
        ),
        within_s,
    )


def measured(platform: Platform, minute: int) -> list[dict[str, Any]]:
    """Have the platform's clock pass `minute`, and the time that hosts keep it for; return what is told of it."""
    platform.clock = lambda: (minute + 1) * 60.0 + LAG_AT_MOST_S

    def told() -> list[dict[str, Any]]:
        platform.change()  # a report that was on its way is answered, and another one comes
        time.sleep(0.1)
        return [row for report in platform.reports for row in report["minutes"] if row["minute"] == minute]

    found: list[dict[str, Any]] = platform.until(told)
    return found


@contextmanager
def somebody(command: str = LOOP) -> Iterator[int]:
    """Have a process that is no task's; give its pid."""
    process = subprocess.Popen(["/bin/sh", "-c", command])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
