"""Which faults take a card out, and until when: kept on the disk, since a restarted agent makes no card whole."""

import logging
import os
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any

from cluster.agent import records
from cluster.agent.processes import boot_id

log = logging.getLogger(__name__)

FILE = "cards.json"
MODULE = Path("/sys/module/nvidia")
# Xids that say nothing bad of the card. Every other one takes it out: a newer driver may know more of them.
OF_PROGRAMS = {13, 31, 43, 45, 68, 69, 109}  # a task's own fault, or the driver clearing up after one
OF_RECORDS = {63, 92, 94, 154}  # the driver wrote something down, and the card goes on
HARMLESS = OF_PROGRAMS | OF_RECORDS

Facts = dict[str, Any]


def session(module: Path = MODULE) -> str:
    """Return what changes when the host is restarted or the driver is loaded anew."""
    try:
        loaded = os.stat(module).st_ino  # the kernel gives it a new one each time
    except OSError:
        loaded = 0
    return f"{boot_id()}.{loaded}"


class Faults:
    """The faults of the cards, and what else has to outlive an agent: which index each card has."""

    def __init__(self, folder: Path | None, module: Path = MODULE) -> None:
        """Read what an earlier agent left in `folder`; None: keep nothing."""
        self._folder = folder
        self._module = module
        kept = _read(folder)
        self._session: str = kept["session"]
        self._faults: dict[str, Facts] = kept["faults"]  # by card, as of `_place`
        self._ecc: dict[str, int] = kept["ecc"]  # errors of each GPU that are no news
        self._indexes: dict[str, int] = kept["indexes"]
        self.cards: list[Facts] = kept["cards"]  # what gpus.py saw last
        self._before = self._all()

    def begin(self) -> None:
        """Begin a look: what the driver forgot is forgotten here."""
        now = session(self._module)
        if now != self._session:
            for place in self._faults:
                log.warning("%s: its fault is forgotten, the driver was loaded anew.", place)
            self._session, self._faults, self._ecc = now, {}, {}

    def xid(self, gpu: str, part: int | None, number: int) -> None:
        """Note an Xid of a GPU, or of a slice of it."""
        if number not in HARMLESS:
            self._note(_place(gpu, part), f"Xid {number}", "xid")

    def ecc(self, gpu: str, errors: int | None) -> None:
        """Note how many uncorrectable errors a GPU had since its driver was loaded or it was reset."""
        if errors is None:
            return
        known = self._ecc.get(gpu, 0)
        if errors > known:
            self._note(_place(gpu, None), f"{errors} uncorrectable ECC errors", "ecc")
        elif errors < known:  # it was reset, which is what cures both kinds
            self._faults = {place: fault for place, fault in self._faults.items() if not _is_of(gpu, place)}
        self._ecc[gpu] = errors

    def of(self, gpu: str, part: int | None) -> tuple[str, str]:
        """Return the fault of a GPU, or of a slice of it, by name and reason; both are blank where it has none."""
        places = {_place(gpu, None), _place(gpu, part)}
        found = next((self._faults[place] for place in sorted(places) if place in self._faults), None)
        return (found["name"], found["reason"]) if found else ("", "")

    def clear(self, names: Collection[str]) -> None:
        """Forget the faults with these names: an operator says that they are no more."""
        self._faults = {place: fault for place, fault in self._faults.items() if fault["name"] not in names}

    def index(self, card: str, preferred: int) -> int:
        """Return the index of a card, known by what never changes of it; a new one gets a free one.

        An index never passes to another card: the platform may still hold it for a task.
        """
        if card not in self._indexes:
            taken = set(self._indexes.values())
            self._indexes[card] = next(index for index in range(preferred, 2**15) if index not in taken)
        return self._indexes[card]

    def save(self) -> None:
        """Write down what changed."""
        now = self._all()
        if self._folder is None or now == self._before:
            return
        try:
            records.write(str(self._folder), FILE, now)
        except OSError as error:
            log.warning("What is known of the cards is not kept: %s.", error.strerror or error)
            return  # tried again at the next look
        self._before = now

    def _note(self, place: str, reason: str, kind: str) -> None:
        old = self._faults.get(place)
        if old is None or kind == old["kind"] == "ecc":
            self._faults = self._faults | {
                place: {"name": uuid.uuid4().hex[:12], "reason": reason, "kind": kind}
            }
            log.warning("%s is out: %s.", place, reason)

    def _all(self) -> Facts:
        return {
            "session": self._session,
            "faults": dict(self._faults),
            "ecc": dict(self._ecc),
            "indexes": dict(self._indexes),
            "cards": list(self.cards),
        }


def _read(folder: Path | None) -> Facts:
    """Return what an earlier agent left; nothing where that cannot be read, whoever wrote it."""
    kept = records.read(str(folder), FILE) if folder else None
    try:
        return _checked(kept) if kept else _nothing()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        log.warning("What an earlier agent knew of the cards cannot be read: %r.", error)
        return _nothing()


def _nothing() -> Facts:
    return {"session": "", "faults": {}, "ecc": {}, "indexes": {}, "cards": []}


def _checked(kept: Facts) -> Facts:
    faults = {str(place): _texts(fault, "name", "reason", "kind") for place, fault in kept["faults"].items()}
    cards = [
        _texts(card, "uuid", "gpu_type", "gpu")
        | {name: int(card[name]) for name in ("index", "memory_mib", "number", "shares")}
        | {"part": None if card["part"] is None else int(card["part"])}
        for card in kept["cards"]
    ]
    return {
        "session": str(kept["session"]),
        "faults": faults,
        "ecc": {str(gpu): int(errors) for gpu, errors in kept["ecc"].items()},
        "indexes": {str(card): int(index) for card, index in kept["indexes"].items()},
        "cards": cards,
    }


def _texts(facts: Facts, *names: str) -> Facts:
    return {name: str(facts[name]) for name in names}


def _place(gpu: str, part: int | None) -> str:
    return gpu if part is None else f"{gpu} {part}"


def _is_of(gpu: str, place: str) -> bool:
    return place.partition(" ")[0] == gpu
