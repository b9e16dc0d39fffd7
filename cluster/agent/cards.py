"""The cards of this host as they are reported, and what is known of them, looked at again from time to time."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cluster.agent.minutes import Minutes, Sample
from cluster.agent.outside import Ours
from cluster.agent.probe import NoCards

log = logging.getLogger(__name__)
OTHER_LOOK_S = 2.0  # how long a look waits for another one that is under way


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card as it is reported to the platform: what one process sees as one GPU."""

    index: int  # stays with the card whatever becomes of others
    uuid: str  # what CUDA calls it; of a share its GPU's; blank for simulated cards
    gpu_type: str
    memory_mib: int = 0
    state: str = "ok"
    reason: str = ""
    fault: str = ""  # the name of the fault that an operator may clear
    shares: int = 0  # into how many the GPU is divided by MPS, where this is one of them

    def report(self) -> dict[str, Any]:
        """Return the card in the form of a report."""
        return {
            "index": self.index,
            "uuid": self.uuid,
            "gpu_type": self.gpu_type,
            "memory_mib": self.memory_mib,
            "state": self.state,
            "reason": self.reason,
            "fault": self.fault,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at the cards found; `samples` by index, without those of which nothing can be known."""

    cards: tuple[Card, ...]
    samples: Mapping[int, Sample] = field(default_factory=dict)


class Source(Protocol):
    """Where cards come from: NVML (gpus.py), or names alone."""

    def remembered(self) -> tuple[Card, ...]:
        """Return the cards that an earlier agent saw, until the first look has ended."""

    def look(self, ours: Callable[[], Ours]) -> Look:
        """Look at the cards, and at who uses them besides `ours`, for as long as that takes; raises NoCards."""

    def clear(self, faults: Collection[str]) -> None:
        """Forget faults that an operator cleared, by their names."""

    def close(self) -> None:
        """Give up a look that is under way in another thread."""


class Simulated:
    """Cards that exist in name only: so many of each GPU type, and nothing to measure."""

    def __init__(self, groups: Sequence[tuple[str, int]]) -> None:
        """Number them over their types."""
        names = [name for name, number in groups for _ in range(number)]
        self._cards = tuple(Card(index=index, uuid="", gpu_type=name) for index, name in enumerate(names))

    def remembered(self) -> tuple[Card, ...]:
        """Return all: nothing has to be asked."""
        return self._cards

    def look(self, ours: Callable[[], Ours]) -> Look:
        """Return all."""
        return Look(cards=self._cards)

    def clear(self, faults: Collection[str]) -> None:
        """Have no faults."""

    def close(self) -> None:
        """Have nothing to give up."""


class Cards:
    """What is known of the host's cards."""

    def __init__(self, source: Source) -> None:
        """Look at `source`; nothing is asked yet."""
        self._source = source
        self._lock = threading.Lock()
        self._said = ""
        self.ours: Callable[[], Ours] = Ours  # what runs here for the platform
        self.now = source.remembered()
        self.minutes = Minutes()

    def refresh(self, cleared: Collection[str] = ()) -> bool:
        """Look at the cards, in a thread that may wait; return whether they changed.

        `cleared` names faults that are no more, by the word of an operator. A look that is under way is not doubled:
        what hangs would take every thread of the agent.
        """
        if not self._lock.acquire(timeout=OTHER_LOOK_S):
            return False
        try:
            self._source.clear(cleared)
            look = self._look()
        finally:
            self._lock.release()
        self.minutes.take(look.samples)
        changed, self.now = look.cards != self.now, look.cards
        return changed

    def close(self) -> None:
        """Give up what is under way: the agent ends."""
        self._source.close()

    def _look(self) -> Look:
        try:
            look = self._source.look(self.ours)
        except NoCards as fault:
            self._say(f"{fault}: this host offers no cards (--simulate TYPE:N offers simulated ones).")
            return Look(cards=())
        bad = "".join(f" Card {card.index}: {card.reason}." for card in look.cards if card.state != "ok")
        self._say(f"This host has {len(look.cards)} cards.{bad}")
        return look

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            log.info("%s", sentence)
            self._said = sentence
