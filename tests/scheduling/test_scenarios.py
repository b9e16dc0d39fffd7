"""Faults that other systems had, as scenarios: each file says what happens and what is expected."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command

from jobs.simulation.figures import report
from jobs.simulation.workload import read_scenario
from tests.scheduling.watch import Watched

FILES = sorted(Path(__file__).with_name("scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    simulator = Watched(read_scenario(document))

    simulator.run()

    meets(report(simulator), document["expect"])


def test_the_command_runs_a_scenario_and_writes_its_json(tmp_path: Path) -> None:
    path = next(path for path in FILES if path.stem.startswith("b04"))

    call_command("simulate", scenario=path, json=tmp_path / "out.json")

    meets(json.loads((tmp_path / "out.json").read_text()), yaml.safe_load(path.read_text())["expect"])


def meets(figures: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that the figures are what the scenario expects of them."""
    for name, wanted in expected["tasks"].items():
        task_meets(figures["tasks"][name], wanted, name)
    if "evictions" in expected:
        assert figures["evictions"] == expected["evictions"]
    if "evicted" in expected:
        assert len(figures["evictions"]) == expected["evicted"]
    for key, value in expected.get("summary", {}).items():
        assert figures["summary"][key] == value


def task_meets(task: dict[str, Any], wanted: dict[str, Any], name: str) -> None:
    """Assert what is expected of a task: fields, hosts of its last attempt, reason, attempts."""
    for key, value in wanted.items():
        if key == "hosts":
            assert sorted(task["attempts"][-1]["cards"]) == value, name
        elif key == "reason":
            assert task["reason"]["code"] == value, (name, task["reason"])
        elif key == "says":
            assert value in task["reason"]["sentence"], name
        elif key == "attempts":
            assert [{k: a[k] for k in w} for a, w in zip(task["attempts"], value, strict=True)] == value, name
        else:
            assert task[key] == value, (name, key, task)
