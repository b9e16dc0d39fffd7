"""The real cards of this host: what NVML says, made into cards with a type, an index, a state and its reason."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster.agent import mps, outside
from cluster.agent.cards import Card, Look
from cluster.agent.faults import Facts, Faults
from cluster.agent.gpu_names import gpu_type, share_type, slice_type
from cluster.agent.minutes import Sample
from cluster.agent.outside import Ours
from cluster.agent.probe import NoCards, Probe

PARTS_FROM = 100  # slices and shares of card 0 are numbered from here on, those of card 1 from 200
REASON_AT_MOST = 255
NOT_ASKED = "NVML has not answered since the agent was started"


class Gpus:
    """The cards that NVML finds."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        shares: Mapping[str, int] | None = None,
        probe: Probe | None = None,
    ) -> None:
        """Keep faults in `folder`, None: nowhere; divide cards by MPS, type → shares."""
        self._faults = Faults(folder)
        self._shares = dict(shares or {})
        self._probe = probe or Probe()

    def remembered(self) -> tuple[Card, ...]:
        """Return the cards that an earlier agent saw: until NVML answers nobody knows whether they work."""
        return self._out_of_reach(NOT_ASKED)

    def look(self, ours: Callable[[], Ours] = Ours) -> Look:
        """Ask NVML, and who on the cards is not `ours`; raises NoCards where it cannot be used and never could.

        Cards that were there are broken while it cannot: only NVML itself says that one is gone.
        """
        self._faults.begin()
        try:
            answer = self._probe.look()
        except NoCards as fault:
            if not self._faults.cards:
                raise
            self._faults.save()
            return Look(cards=self._out_of_reach(str(fault)))
        look = self._read(answer, ours)
        self._faults.save()
        return look

    def clear(self, faults: Collection[str]) -> None:
        """Forget faults that an operator cleared."""
        self._faults.clear(faults)

    def close(self) -> None:
        """Give up a look that is under way in another thread."""
        self._probe.close()

    def _out_of_reach(self, reason: str) -> tuple[Card, ...]:
        return tuple(_card(kept, "broken", reason) for kept in self._faults.cards)

    def _read(self, answer: Facts, ours: Callable[[], Ours]) -> Look:
        gpus = [self._named(gpu, answer["gpus"]) for gpu in answer["gpus"]]
        uuids = {gpu["number"]: gpu["uuid"] for gpu in gpus}
        xids = [(uuids.get(event["number"], ""), event["part"], event["xid"]) for event in answer["xids"]]
        for event in xids:
            self._faults.xid(*event)
        for gpu in gpus:
            self._faults.ecc(gpu["uuid"], gpu.get("ecc_uncorrected"))
        parts = [(gpu, part) for gpu in gpus for part in self._seen(gpu) if part["gpu_type"]]
        self._faults.cards = [part for _, part in parts]
        cards, samples = [], {}
        for gpu, part in parts:
            said = _of_part(gpu, part)
            strangers = outside.strangers(said.get("pids") or [], ours)
            cards.append(self._judge(part, gpu.get("fault", ""), said, strangers.values()))
            samples[part["index"]] = _sample(said, len(strangers), _events(xids, part))
        return Look(cards=tuple(cards), samples=samples)

    def _named(self, gpu: Facts, others: Collection[Facts]) -> Facts:
        """Return a card that no longer says what it is as the one that had its number before."""
        if gpu["uuid"]:
            return gpu
        present = {other["uuid"] for other in others}
        same = (one for one in self._faults.cards if one["number"] == gpu["number"])
        before = next((one for one in same if one["gpu"] not in present), None)
        return gpu | {"uuid": before["gpu"]} if before else gpu

    def _seen(self, gpu: Facts) -> list[Facts]:
        """Return what is to be kept of the cards that a GPU is: itself, its slices, or its shares."""
        before = [one for one in self._faults.cards if gpu["uuid"] and one["gpu"] == gpu["uuid"]]
        if gpu.get("fault") and before:
            return [one | {"number": gpu["number"]} for one in before]
        kind = gpu_type(gpu["name"])
        if gpu.get("slices") is not None:
            return [self._slice(gpu, kind, one) for one in gpu["slices"]]
        if kind in self._shares:
            return [self._share(gpu, kind, self._shares[kind], place) for place in range(self._shares[kind])]
        return [self._kept(gpu, gpu["uuid"], kind, gpu.get("memory_mib", 0), gpu["number"], part=None)]

    def _slice(self, gpu: Facts, kind: str, one: Facts) -> Facts:
        first = PARTS_FROM * (gpu["number"] + 1)
        name = slice_type(kind, one["profile"])
        return self._kept(gpu, one["uuid"], name, one["memory_mib"], first, part=one["part"])

    def _share(self, gpu: Facts, kind: str, shares: int, place: int) -> Facts:
        first = PARTS_FROM * (gpu["number"] + 1)
        name, memory_mib = share_type(kind, shares), gpu.get("memory_mib", 0) // shares
        kept = self._kept(gpu, gpu["uuid"], name, memory_mib, first + place, part=None, place=place)
        return kept | {"shares": shares}

    def _kept(
        self,
        gpu: Facts,
        uuid: str,
        name: str,
        memory_mib: int,
        index: int,
        *,
        part: int | None,
        place: int | None = None,
    ) -> Facts:
        # A slice may come back with its old name and another size: then it is another card.
        identity = " ".join(filter(None, (uuid, name, "" if place is None else str(place))))
        return {
            "index": self._faults.index(identity, index) if uuid else index,
            "uuid": uuid,
            "gpu_type": name,
            "memory_mib": memory_mib,
            "gpu": gpu["uuid"],
            "number": gpu["number"],
            "part": part,
            "shares": 0,
        }

    def _judge(self, part: Facts, dead: str, said: Facts, strangers: Iterable[str]) -> Card:
        """Return a card with its state: what is worst of it."""
        name, fault = self._faults.of(part["gpu"], part["part"])
        if dead:
            return _card(part, "broken", dead, name)
        if fault:
            return _card(part, "broken", fault, name)
        if said.get("remap_failed"):
            return _card(part, "broken", "Rows of its memory failed, and there are no spare ones left")
        if part["shares"] and (missing := mps.fault()):
            return _card(part, "broken", missing)
        if who := ", ".join(strangers):
            return _card(part, "external", f"used from outside: {who}")
        return _card(part, "ok", "")


def read_nvml() -> tuple[Card, ...]:
    """Return this host's cards as they are now; raises NoCards. One that does not answer may have no type."""
    probe = Probe()
    try:
        return Gpus(probe=probe).look().cards
    finally:
        probe.end()


def _card(part: Facts, state: str, reason: str, fault: str = "") -> Card:
    names = ("index", "uuid", "gpu_type", "memory_mib", "shares")
    known: dict[str, Any] = {name: part[name] for name in names}
    return replace(Card(**known), state=state, reason=reason[:REASON_AT_MOST], fault=fault)


def _of_part(gpu: Facts, part: Facts) -> Facts:
    """Return what is known of a card: of a slice its own memory, of a share nothing that others share."""
    whole = {
        name: gpu.get(name) for name in ("temperature_c", "ecc_corrected", "ecc_uncorrected", "remap_failed")
    }
    if part["shares"]:
        return whole | {"pids": gpu.get("pids")}
    if gpu.get("slices") is not None:
        own = next(one for one in gpu["slices"] if one["uuid"] == part["uuid"])
        return whole | {"used_mib": own["used_mib"], "pids": own["pids"]}
    return gpu


def _sample(said: Facts, strangers: int, xids: Iterable[int]) -> Sample:
    return Sample(
        use=said.get("use"),
        memory_mib=said.get("used_mib"),
        temperature_c=said.get("temperature_c"),
        power_w=said.get("power_w"),
        ecc_corrected=said.get("ecc_corrected"),
        ecc_uncorrected=said.get("ecc_uncorrected"),
        outside=strangers,
        xids=tuple(xids),
    )


def _events(xids: Iterable[tuple[str, int | None, int]], part: Facts) -> list[int]:
    """Return the Xids that concern a card: those of its GPU, but not of another slice of it."""
    return [number for gpu, place, number in xids if gpu == part["gpu"] and place in {None, part["part"]}]
