"""What was measured on each card, gathered by minutes of the platform's clock until the platform has it."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROWS_AT_MOST = 4000  # kept while the platform is away; the oldest go first
XIDS_AT_MOST = 8  # different ones of a card in a minute
INT16, INT32 = 2**15 - 1, 2**31 - 1
BIG = {"memory_mib", "ecc_corrected", "ecc_uncorrected"}  # others are far below


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One card at one moment; None is what nobody can know."""

    use: int | None = None  # percent of the time in which something ran on it
    memory_mib: int | None = None
    temperature_c: int | None = None
    power_w: int | None = None
    ecc_corrected: int | None = None  # since the driver was loaded or the card reset
    ecc_uncorrected: int | None = None
    outside: int = 0  # processes that are no task's
    xids: tuple[int, ...] = ()


@dataclass(slots=True)
class _Minute:
    """The samples of one card in one minute."""

    samples: list[Sample] = field(default_factory=list)

    def values(self, name: str) -> list[int]:
        return [value for sample in self.samples if (value := getattr(sample, name)) is not None]

    def most(self, name: str) -> int | None:
        values = self.values(name)
        return _within(name, max(values)) if values else None

    def mean(self, name: str) -> int | None:
        values = self.values(name)
        return _within(name, round(sum(values) / len(values))) if values else None

    def report(self, card: int, minute: int) -> dict[str, Any]:
        xids = sorted({xid for sample in self.samples for xid in sample.xids})[:XIDS_AT_MOST]
        return {
            "card": card,
            "minute": minute,
            "use_mean": self.mean("use"),
            "use_max": self.most("use"),
            "memory_mean_mib": self.mean("memory_mib"),
            "memory_max_mib": self.most("memory_mib"),
            "temperature_max_c": self.most("temperature_c"),
            "power_mean_w": self.mean("power_w"),
            "power_max_w": self.most("power_w"),
            "ecc_corrected": self.most("ecc_corrected"),
            "ecc_uncorrected": self.most("ecc_uncorrected"),
            "outside": self.most("outside"),
            "xids": xids,
        }


def _within(name: str, value: int) -> int:
    """Return a value that a report may have, also where a card says nonsense."""
    return max(0, min(value, INT32 if name in BIG else INT16))


class Minutes:
    """Samples on their way to the platform; looked at by several threads."""

    def __init__(self) -> None:
        """Have none. What is measured before the platform was heard has no place on its clock, and is not kept."""
        self._lock = threading.Lock()
        # Of the platform's clock to this process's own, which never jumps.
        self._offset_s: float | None = None
        self._open: dict[tuple[int, int], _Minute] = {}  # by minute and card
        self._done: dict[tuple[int, int], dict[str, Any]] = {}

    def take(self, samples: Mapping[int, Sample]) -> None:
        """Take what was measured just now on each card, by index."""
        with self._lock:
            if self._offset_s is None:
                return
            minute = int((time.monotonic() + self._offset_s) // 60)
            self._close(before=minute)
            for card, sample in samples.items():
                self._open.setdefault((minute, card), _Minute()).samples.append(sample)

    def _close(self, before: int) -> None:
        for minute, card in [key for key in self._open if key[0] < before]:
            self._done[minute, card] = self._open.pop((minute, card)).report(card, minute)
        for key in sorted(self._done)[: max(0, len(self._done) - ROWS_AT_MOST)]:
            del self._done[key]

    def report(self, most: int, lag_s: float = 0.0) -> list[dict[str, Any]]:
        """Return the oldest minutes that ended `lag_s` ago or earlier, at most so many rows, in protocol.py's words."""
        with self._lock:
            if self._offset_s is None:
                return []
            present = (time.monotonic() + self._offset_s - lag_s) // 60
            return [self._done[key] for key in sorted(self._done) if key[0] < present][:most]

    def sent(self, rows: list[dict[str, Any]], now: float) -> None:
        """Forget what the platform has, whose clock says `now`, in seconds since the epoch."""
        with self._lock:
            self._offset_s = now - time.monotonic()
            for row in rows:
                self._done.pop((row["minute"], row["card"]), None)
