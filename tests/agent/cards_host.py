"""What an agent knows of a host's cards, whose driver a test has in its hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.agent.cards import Card
from cluster.agent.gpus import Gpus
from cluster.agent.probe import Probe
from tests.agent.nvml import Nvml

A100 = "NVIDIA A100-SXM4-40GB"


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Return a driver of today with two P40."""
    return driver(tmp_path, monkeypatch, "Tesla P40", "Tesla P40")


def driver(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, old: bool = False) -> Nvml:
    """Return a driver with these cards, which the processes started from now on find."""
    nvml = Nvml(folder / "nvml", old=old)
    nvml.gpus(*names)
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)
    return nvml


class Host:
    """What an agent on a host with these cards knows, and what one that is started again does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self.folder.mkdir()
        self.probe = Probe(first_s=5, answer_s=0.5)
        self.start()

    def start(self, **options: dict[str, int]) -> None:
        """Start the agent, again."""
        self.probe.end()
        self.gpus = Gpus(self.folder, probe=self.probe, **options)

    def look(self) -> dict[int, Card]:
        """Return the cards by index, after a look."""
        return {card.index: card for card in self.gpus.look().cards}

    def states(self) -> dict[int, str]:
        """Return the cards' states by index, with the reasons of those that are not well."""
        return {index: f"{card.state} {card.reason}".strip() for index, card in self.look().items()}

    def types(self) -> dict[int, str]:
        """Return the cards' types by index."""
        return {index: card.gpu_type for index, card in self.look().items()}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Return the host."""
    host = Host(tmp_path)
    yield host
    host.probe.end()
