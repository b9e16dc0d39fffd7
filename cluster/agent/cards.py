"""The cards of this host: found with NVML, or simulated where there is no GPU."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

log = logging.getLogger(__name__)

# Words of NVML's names that say who sells a card, not what kind it is.
BRANDS = {"nvidia", "tesla", "geforce", "quadro"}

Read = Callable[[], "tuple[Card, ...]"]


class NoCards(Exception):
    """NVML cannot be used; the message says why in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card as it is reported to the platform."""

    index: int
    uuid: str  # blank for simulated cards
    gpu_type: str
    memory_mib: int = 0
    state: str = "ok"
    reason: str = ""

    def report(self) -> dict[str, Any]:
        """Return the card in the form of a report."""
        return {
            "index": self.index,
            "uuid": self.uuid,
            "gpu_type": self.gpu_type,
            "memory_mib": self.memory_mib,
            "state": self.state,
            "reason": self.reason,
        }


def gpu_type(name: str) -> str:
    """Return the GPU type that NVML's name of a card stands for.

    The brand words go, what is left is joined with `-`: "Tesla P40" → "P40", "NVIDIA A100-SXM4-80GB" →
    "A100-SXM4-80GB", "NVIDIA H100 80GB HBM3" → "H100-80GB-HBM3", "NVIDIA GeForce RTX 3090" → "RTX-3090".
    """
    words = [word for word in name.split() if word.lower() not in BRANDS]
    return "-".join(words).replace(",", "-")[:64]


def simulated(groups: Sequence[tuple[str, int]]) -> tuple[Card, ...]:
    """Return cards that exist in name only: so many of each GPU type."""
    names = [name for name, number in groups for _ in range(number)]
    return tuple(Card(index=index, uuid="", gpu_type=name) for index, name in enumerate(names))


def read_nvml() -> tuple[Card, ...]:
    """Return this host's cards; raises NoCards. One that does not answer is broken, maybe without a type."""
    try:
        import pynvml
    except ImportError as error:
        raise NoCards("The package nvidia-ml-py is not installed") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NoCards(f"NVML cannot be used ({error})") from error
    try:
        return tuple(_read_card(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        raise NoCards(f"NVML cannot count the cards ({error})") from error
    finally:
        pynvml.nvmlShutdown()


def _read_card(nvml: Any, index: int) -> Card:
    uuid, name = "", ""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        memory_mib = nvml.nvmlDeviceGetMemoryInfo(handle).total // 2**20
    except nvml.NVMLError as error:
        return Card(
            index=index, uuid=uuid, gpu_type=gpu_type(name), state="broken", reason=f"NVML says: {error}"
        )
    return Card(index=index, uuid=uuid, gpu_type=gpu_type(name), memory_mib=memory_mib)


class Cards:
    """What is known of the host's cards, read again from time to time."""

    def __init__(self, read: Read) -> None:
        """Read the cards with `read`; it may block."""
        self._read = read
        self._said = ""
        self.now: tuple[Card, ...] = ()

    def refresh(self) -> bool:
        """Read the cards; return whether they changed.

        A broken card that no longer says what it is stays what it was; one that never said is left out.
        """
        try:
            found = self._read()
        except NoCards as fault:
            self._say(f"{fault}: this host offers no cards (--simulate TYPE:N offers simulated ones).")
            found = ()
        else:
            self._say(f"This host offers {len(found)} cards.")
        before = {card.index: card for card in self.now}
        cards = [
            replace(before.get(card.index, card), state=card.state, reason=card.reason)
            if card.state == "broken"
            else card
            for card in found
        ]
        found = tuple(card for card in cards if card.gpu_type)
        changed, self.now = found != self.now, found
        return changed

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            log.info("%s", sentence)
            self._said = sentence
