"""Do the deeds that break something, each at its time, and undo them again."""

import heapq
import signal
import threading
import time
from collections.abc import Callable
from itertools import count

import redis

from cluster.agent import processes
from tests.chaos.chronicle import Chronicle
from tests.chaos.deeds import Deed
from tests.chaos.installation import Installation, host_of

TICK_S = 0.05
Undo = Callable[[], None]


class Faults:
    """What breaks the installation; it belongs to the thread that starts its programs."""

    def __init__(self, installation: Installation, chronicle: Chronicle) -> None:
        """Break `installation`, and write down what was done."""
        self._there = installation
        self._chronicle = chronicle
        self._undoing: list[tuple[float, int, Undo]] = []
        self._order = count()
        self._lines: dict[str, int] = {}  # which change of a line is its last

    def run(self, deeds: list[Deed], over: threading.Event) -> None:
        """Do each deed at its time from now on, and keep everything running; return early once `over` is set."""
        began = time.monotonic()
        coming = list(reversed([deed for deed in deeds if deed.kind in self._ways]))
        end = deeds[-1].at if deeds else 0.0
        while not over.is_set() and (coming or time.monotonic() < began + end):
            self.tend()
            while coming and coming[-1].at <= time.monotonic() - began:
                self._do(coming.pop())
            time.sleep(TICK_S)

    def tend(self) -> None:
        """Undo what is due, and start again what ended."""
        while self._undoing and self._undoing[0][0] <= time.monotonic():
            heapq.heappop(self._undoing)[2]()
        for name in self._there.tend():
            self._chronicle.note(f"{name} ended by itself")

    def calm(self) -> None:
        """Undo everything at once; clocks stay as wrong as they are."""
        while self._undoing:
            heapq.heappop(self._undoing)[2]()

    def _do(self, deed: Deed) -> None:
        if self._ways[deed.kind](deed):
            self._chronicle.done(deed.kind, str(deed), host_of(deed.target))

    @property
    def _ways(self) -> dict[str, Callable[[Deed], bool]]:
        return {
            "kill": self._kill,
            "stop": self._stop,
            "line": self._line,
            "cut": self._cut,
            "clock": self._clock,
            "fewer_cards": self._fewer_cards,
            "flush": self._flush,
        }

    def _after(self, seconds: float, undo: Undo) -> None:
        heapq.heappush(self._undoing, (time.monotonic() + seconds, next(self._order), undo))

    def _kill(self, deed: Deed) -> bool:
        return self._there.kill(deed.target, deed.pick, deed.for_s)

    def _stop(self, deed: Deed) -> bool:
        found = [
            process for pid in self._there.pids(deed.target, deed.pick) if (process := processes.find(pid))
        ]
        for process in found:
            processes.send(process, signal.SIGSTOP)

        def go_on() -> None:
            for process in found:
                processes.send(process, signal.SIGCONT)

        self._after(deed.for_s, go_on)
        return bool(found)

    def _line(self, deed: Deed) -> bool:
        assert self._there.lines is not None
        line = self._there.lines.by_name[deed.target]
        line.be(deed.word, deed.number)
        change = self._lines[deed.target] = self._lines.get(deed.target, 0) + 1

        def pass_on() -> None:
            if self._lines[deed.target] == change:  # else it was changed again meanwhile
                line.be("pass")

        self._after(deed.for_s, pass_on)
        return True

    def _cut(self, deed: Deed) -> bool:
        assert self._there.lines is not None
        self._there.lines.by_name[deed.target].cut()
        return True

    def _clock(self, deed: Deed) -> bool:
        self._there.clocks[deed.target].be_off(deed.number)
        return True

    def _fewer_cards(self, deed: Deed) -> bool:
        self._there.have_cards(deed.target, int(deed.number))
        self._there.kill(deed.target, 0, 0.2)

        def have_all() -> None:
            self._there.have_cards(deed.target, 0)
            self._there.kill(deed.target, 0, 0.2)

        self._after(deed.for_s, have_all)
        return True

    def _flush(self, _: Deed) -> bool:
        try:
            self._there.flush()
        except redis.RedisError:
            return False
        return True
