"""What kinds of instance this host can run: plain processes where the operator lets it, and containers."""

import logging
import os

from cluster.agent.engine import PING_S, EngineAway, EngineFault, candidates, open_engine

log = logging.getLogger(__name__)
PROCESS, CONTAINER = "process", "container"


class Offers:
    """What this host offers, looked at again from time to time: an engine may be installed, stopped or started."""

    def __init__(self, *, processes: bool, engine: str) -> None:
        """Offer plain `processes` or not; `engine` is what engine.candidates takes for the operator's choice."""
        self._processes = processes
        self._choice = engine
        self._said = ""
        self.looked = False  # whether it is known if containers can be run
        self.engine: str | None = None  # the address of the one that worked last; it may be away now
        self.now: tuple[str, ...] = (PROCESS,) if processes else ()

    def refresh(self) -> bool:
        """Look for a working engine, which may block; return whether the offers changed."""
        found = self._find()
        self.engine = found or self.engine
        kinds = [kind for kind, there in ((PROCESS, self._processes), (CONTAINER, found)) if there]
        before, self.now = self.now, tuple(kinds)
        self.looked = True
        return before != self.now

    def _find(self) -> str | None:
        """Return the first engine that works; one that worked before goes before the others."""
        faults = []
        places = candidates(self._choice, os.environ, os.geteuid())
        for address in sorted(places, key=lambda address: address != self.engine):
            socket = address.partition(":")[2]
            if self._choice == "auto" and not os.path.exists(socket):
                continue  # nobody said that there is one
            try:
                open_engine(address, PING_S).ping()
            except (EngineFault, EngineAway) as fault:
                faults.append(f"{address}: {fault}.")
            else:
                self._say(f"This host runs containers with {address}.")
                return address
        self._say(" ".join(["This host runs no containers.", *faults]))
        return None

    def _say(self, sentence: str) -> None:
        if sentence != self._said:
            log.info("%s", sentence)
            self._said = sentence
