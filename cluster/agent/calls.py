"""How the agent's calls to the platform went lately: how many failed, how often, for how long, and what was wrong."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

WINDOW_S = 600.0  # what is counted is forgotten after this …
SLOT_S = 10.0  # … in portions of so much, so that many calls take no room
REACHED_S = 6.0  # more than link.CONNECT_S: one that breaks later, before it is over, had got through
FAULT_AT_MOST = 255  # characters


@dataclass(slots=True)
class _Slot:
    """What was counted in SLOT_S."""

    number: int
    calls: int = 0
    failed: int = 0
    times: int = 0
    longest_s: float = 0.0


class Calls:
    """Counts calls by a clock that never jumps.

    A time is an unbroken row of failed ones, up to one that is answered, or held by the platform for a while.
    """

    def __init__(self, now_s: float) -> None:
        """Begin to count at `now_s`."""
        self._began_s = now_s
        self._slots: deque[_Slot] = deque([_Slot(_number(now_s))])
        self._away_s: float | None = None  # since when no call was answered; None: the last one was
        self._fault = ""

    def answered(self, now_s: float) -> None:
        """Count a call that the platform answered, whatever it said."""
        self._last_slot(now_s).calls += 1
        self._reached(now_s)

    def failed(self, now_s: float, began_s: float, fault: str, wait_s: float = 0.0) -> None:
        """Count a call that failed at `now_s`, for what `fault` says; the platform might hold it for `wait_s`."""
        slot = self._last_slot(now_s)
        slot.calls += 1
        slot.failed += 1
        was_held = REACHED_S < now_s - began_s < wait_s
        # One that began before another failed says nothing of the time since: both were cut at once.
        if was_held and (self._away_s is None or self._away_s <= began_s):
            self._reached(began_s)
        if self._away_s is None:
            slot.times += 1
            self._away_s = min(began_s + wait_s, now_s)
        self._measure(now_s)
        # As it goes into every report: what cannot be sent would stop them all.
        self._fault = fault.encode(errors="replace").decode()[:FAULT_AT_MOST]

    def report(self, now_s: float) -> dict[str, Any]:
        """Return the figures of the last WINDOW_S in protocol.py's words."""
        self._last_slot(now_s)
        self._measure(now_s)
        failed = sum(slot.failed for slot in self._slots)
        longest_s = max(slot.longest_s for slot in self._slots)
        times = sum(slot.times for slot in self._slots)
        return {
            "over_s": int(min(now_s - self._began_s, WINDOW_S)),
            "made": sum(slot.calls for slot in self._slots),
            "failed": failed,
            "times": max(times, 1) if failed else 0,  # one that began long ago goes on
            "longest_s": math.ceil(longest_s),
            "fault": self._fault if failed else "",
        }

    def _reached(self, at_s: float) -> None:
        self._measure(at_s)
        self._away_s = None

    def _measure(self, now_s: float) -> None:
        """Note for how long nothing was answered so far, where that goes on."""
        if self._away_s is not None:
            slot = self._slots[-1]
            slot.longest_s = max(slot.longest_s, now_s - self._away_s)

    def _last_slot(self, now_s: float) -> _Slot:
        """Return the portion of now, and forget those that are too old."""
        number = _number(now_s)
        if number > self._slots[-1].number:
            self._slots.append(_Slot(number))
        while self._slots[0].number <= number - WINDOW_S / SLOT_S:
            self._slots.popleft()
        return self._slots[-1]


def _number(now_s: float) -> int:
    return int(now_s // SLOT_S)
