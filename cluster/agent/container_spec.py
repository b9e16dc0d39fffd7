"""The container of a spec, as protocol.py describes it, and what a keeper is told of it."""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cluster.agent.cards import Card
from cluster.agent.engine import NETWORKS

GPUS = Path("/proc/driver/nvidia/gpus")
CONTROL = "/dev/nvidiactl"  # every container with a card has it


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSpec:
    """What a container is made of, and what it may use; a limit of 0 is none."""

    image: str
    user: str  # blank: the one that this host runs tasks as
    memory_mib: int
    cpus: float
    shm_mib: int
    pids: int
    network: str
    read_only: bool
    pull_timeout_s: float
    registry: dict[str, str] | None  # username and password


def read_container(document: Any) -> ContainerSpec | None:
    """Return the container of a spec, None where it asks for none; raises KeyError, TypeError or ValueError."""
    if document is None:
        return None
    network = document.get("network") or "host"
    if network not in NETWORKS:
        raise ValueError(f"{network!r} is not a network of a container")
    user = document.get("user") or ""
    if not re.fullmatch(r"(\d+(:\d+)?)?", user):
        raise ValueError(f"{user!r} is not a UID:GID")
    registry = document.get("registry")
    return ContainerSpec(
        image=str(document["image"]),
        user=user,
        memory_mib=_limit(document, "memory_mib"),
        cpus=max(finite(document.get("cpus") or 0), 0.0),
        shm_mib=_limit(document, "shm_mib"),
        pids=_limit(document, "pids"),
        network=network,
        read_only=document.get("read_only") is True,
        pull_timeout_s=finite(document.get("pull_timeout_s") or 600),
        registry={name: str(registry[name]) for name in ("username", "password")} if registry else None,
    )


def finite(value: Any) -> float:
    """Return a number, which JSON's Infinity is none of; raises TypeError or ValueError."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no number that can be used")
    return number


def _limit(document: Any, name: str) -> int:
    return max(int(document.get(name) or 0), 0)


def container_task(
    spec: ContainerSpec, *, engine: str, owner: Path, user: str, cards: Sequence[Card], besides: Sequence[str]
) -> dict[str, Any]:
    """Return what a keeper is told: the spec, which engine runs it, whose it is, and its real cards.

    `user` is the UID:GID that this host runs tasks as, blank for the agent's own; `besides` are the devices that
    the operator gives to every container.
    """
    uuids = [card.uuid for card in cards if card.uuid]
    return {
        **asdict(spec),
        "engine": engine,
        "owner": str(owner),
        "user": spec.user or user,
        "gpus": uuids,
        "devices": device_nodes(uuids),
        "besides": list(besides),
    }


def nodes_below(paths: Sequence[str]) -> list[str]:
    """Return the devices that `paths`, devices or folders of them, name; raises FileNotFoundError for one without any.

    Only those for characters, as cards of networks and the like are: what is for blocks holds somebody's files.
    """
    found: list[str] = []
    for path in paths:
        below = [os.path.join(top, name) for top, _folders, names in os.walk(path) for name in sorted(names)]
        nodes = [each for each in below or [path] if Path(each).is_char_device()]
        if not nodes:
            raise FileNotFoundError(path)
        found += nodes
    return list(dict.fromkeys(found))


def device_nodes(uuids: Sequence[str], gpus: Path = GPUS) -> list[str]:
    """Return what has to be there in a container that got the cards `uuids`: of a slice only what all have."""
    minors = {}
    for path in gpus.glob("*/information"):
        facts = dict(re.findall(r"^(GPU UUID|Device Minor):\s*(\S+)", path.read_text(), re.MULTILINE))
        if len(facts) == 2:
            minors[facts["GPU UUID"]] = facts["Device Minor"]
    found = [f"/dev/nvidia{minors[uuid]}" for uuid in uuids if uuid in minors]
    return [CONTROL, *found] if uuids else []
