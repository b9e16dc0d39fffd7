"""What stands on this machine: which agents it runs, and the small world of the first start."""

import json
import os
import re
import socket
import subprocess
from dataclasses import dataclass

from launch import keys
from launch.places import ROOT, Places
from launch.programs import Agent
from launch.words import Refusal

SIMULATED = "P40:8,M40:4"  # what a machine without cards plays with


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The agents of this machine, and the cards of the small world where it is still to be made."""

    agents: list[Agent]
    cards: list[str] | None = None  # TYPE:NUMBER of the world that is still to be made


def read(here: Places, *, empty: bool) -> World:
    """Return what the first start decided, or decide it.

    Later starts add no world, and change the agents only where TAIJI_SIMULATE names others.
    """
    path = here.data / "world.json"
    simulate = os.environ.get("TAIJI_SIMULATE", "").strip()
    if path.exists():
        agents = [Agent(**agent) for agent in json.loads(path.read_text())["agents"]]
        return World(agents=_simulated(simulate) if simulate else agents)
    found = [] if simulate else _found_cards(here)
    if found:
        return World(agents=[Agent(name=_own_name())], cards=None if empty else found)
    if empty and not simulate:
        return World(agents=[])
    agents = _simulated(simulate or SIMULATED)
    return World(agents=agents, cards=None if empty else [agent.simulate for agent in agents])


def write(here: Places, plan: World) -> None:
    """Keep the decision."""
    agents = [{"name": agent.name, "simulate": agent.simulate} for agent in plan.agents]
    keys.write_private(here.data / "world.json", json.dumps({"agents": agents}, indent=1) + "\n")


def _simulated(text: str) -> list[Agent]:
    """Return an agent for each `TYPE:NUMBER` of the text."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(re.fullmatch(r"[\w.-]+:[1-9]\d{0,2}", part) for part in parts):
        raise Refusal(f"TAIJI_SIMULATE={text!r} is not understood: write TYPE:NUMBER,… such as {SIMULATED}.")
    types = [part.partition(":")[0].lower() for part in parts]
    return [
        Agent(
            name=f"sim-{kind}" + (f"-{types[:place].count(kind) + 1}" if types.count(kind) > 1 else ""),
            simulate=part,
        )
        for place, (kind, part) in enumerate(zip(types, parts, strict=True))
    ]


def _own_name() -> str:
    name = re.sub(r"[^\w.-]", "-", socket.gethostname())
    return name or "this-machine"


def _found_cards(here: Places) -> list[str]:
    """Return this machine's cards as `TYPE:NUMBER`, under the names that its agent gives them."""
    command = [str(here.python), "-m", "launch.cards"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if found.returncode != 0:
        words = found.stderr.strip().splitlines()[-1:]
        raise Refusal(f"The cards of this machine cannot be read: {' '.join(words)}")
    return found.stdout.split()
