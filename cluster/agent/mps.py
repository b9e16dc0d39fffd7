"""Cards that MPS divides into shares: what a share may use, and whether the daemon that sees to it runs."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cluster.agent import processes
from cluster.agent.cards import Card

PIPES = "CUDA_MPS_PIPE_DIRECTORY"
DEFAULT = "/tmp/nvidia-mps"  # NVIDIA's own
PID = "nvidia-cuda-mps-control.pid"
MOST = 48  # clients of one card that every card since Volta takes


def read(text: str) -> dict[str, int]:
    """Return into how many shares cards are divided, by type; raises ValueError for what is not TYPE:N,TYPE:N."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.rpartition(":")
        if not name or not re.fullmatch(r"\d{1,2}", number) or not 2 <= int(number) <= MOST:
            raise ValueError(f"{part!r} is not TYPE:N with N from 2 to {MOST}, such as A10:4")
        found[name] = int(number)
    return found


def folder() -> str:
    """Return where the daemon is found."""
    return os.environ.get(PIPES) or DEFAULT


def fault() -> str:
    """Return why shares cannot be offered, blank where they can.

    Without its daemon CUDA programs run all the same, and take the whole card.
    """
    try:
        pid = int((Path(folder()) / PID).read_text())
    except (OSError, ValueError):
        pid = 0
    found = processes.find(pid) if pid > 0 else None
    return "" if found and not found.dead else f"nvidia-cuda-mps-control does not run ({folder()})"


def environment(cards: Sequence[Card]) -> dict[str, str]:
    """Return what holds a process to its shares, `cards` being all it has; nothing where it has whole cards.

    The part of the computing is one for all cards, so of several the smallest holds; memory is held card by card.
    """
    held = Counter(card.uuid for card in cards)
    by_uuid = {card.uuid: card for card in cards if card.shares}
    if not by_uuid:
        return {}
    percent = min(held[uuid] * 100 // card.shares for uuid, card in by_uuid.items())
    limits = [
        f"{place}={held[uuid] * by_uuid[uuid].memory_mib}M"
        for place, uuid in enumerate(held)
        if uuid in by_uuid
    ]
    return {
        PIPES: folder(),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(limits),
    }
