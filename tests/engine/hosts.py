"""Hosts whose agents and processes are played: what they say goes out as reports that may be late, doubled or lost."""

import uuid
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from django.utils import timezone

from cluster import reports, sync
from cluster.agent.protocol import HOST_RESTARTED, KEEPER_LOST
from cluster.agent.records import STOPPED_EARLY
from cluster.converge import Seen, converge
from cluster.models import Host
from tests.chaos.alive import Alive
from tests.cluster import words

LIVE = ("running", "ending")  # phases in which something of the command may run


@dataclass(slots=True, kw_only=True)
class Kept:
    """An instance on a host, as its keeper has it."""

    id: str
    task: int
    rank: int
    cards: frozenset[int]
    waits_for_go: bool
    phase: str = "starting"
    began: bool = False
    end: dict[str, Any] = field(default_factory=dict)

    def finish(self, **end: Any) -> None:
        """Be gone; nothing of it is left."""
        self.phase, self.end = "gone", end

    def report(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return words.instance(self.id, self.phase, **self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A report on its way, and which call of its host it is."""

    host: str
    call: int
    report: reports.Report


class PlayedHost:
    """One host: it does what a real one does, with the real `converge`, when it is told to."""

    def __init__(self, row: Host, cards: int) -> None:
        """Play the host of `row`."""
        self.name, self.pk, self.cards = row.name, row.pk, cards
        self.kept: dict[str, Kept] = {}
        self._calls = count(1)
        self.starts: list[str] = []  # ids, each as often as its command was started
        self._desired: sync.Desired | None = None
        self._fresh()

    def _fresh(self) -> None:
        self._boot, self._seq, self._call = str(uuid.uuid4()), 0, 0
        self._desired = None

    def restart_agent(self) -> None:
        """End the agent and start another: what runs runs on, and the call at hand is nobody's any more."""
        self._fresh()

    def restart(self) -> None:
        """Lose all that runs, as when the machine is started anew."""
        for kept in self.kept.values():
            if kept.phase != "gone":
                kept.finish(detail=HOST_RESTARTED)
        self._fresh()

    def wipe(self) -> None:
        """Lose all that runs and every record of it, as when the machine is set up anew with its token."""
        self.kept.clear()
        self._fresh()

    def say(self) -> Sent:
        """Report: the answer to an earlier report is not waited for any more."""
        self._seq += 1
        self._call = next(self._calls)
        document = words.report(
            self._seq,
            self.cards,
            boot=self._boot,
            instances=[kept.report() for kept in self.kept.values()],
            have=self._desired.version if self._desired else "",
            address=f"{self.name}.test",
        )
        return Sent(host=self.name, call=self._call, report=reports.read(document))

    def heard(self, sent: Sent) -> sync.Desired | None:
        """Let the platform take a report; return its answer, None where the report is late, or the host removed."""
        try:
            return sync.take(Host.objects.get(pk=self.pk), sent.report, timezone.now())
        except (sync.Late, sync.NotKnown):
            return None

    def answered(self, sent: Sent, answer: sync.Desired | None) -> None:
        """Take an answer, if it is that of the last call, and act on it."""
        if answer is not None and sent.call == self._call:
            self._desired = answer
            self.act()

    def act(self) -> None:
        """Do what the last answer asks for."""
        if self._desired is None:
            return
        orders = {str(order[0]): order for order in self._desired.instances}
        seen = {pk: Seen.GONE if kept.phase == "gone" else Seen.LIVE for pk, kept in self.kept.items()}
        wanted = {pk: run for pk, (_, run, _, _, _) in orders.items()}
        steps = converge(wanted, {str(pk) for pk in self._desired.forget}, seen)
        for pk in steps.stop:
            self._stop(self.kept[pk])
        for pk in steps.void:
            self.kept[pk] = self._new(pk, orders[pk][3])
            self.kept[pk].finish(detail=STOPPED_EARLY, by_itself=False)
        for pk in steps.start:
            self.kept[pk] = self._new(pk, orders[pk][3])
        for pk, (_, run, go, _, _) in orders.items():
            if run and go and self.kept[pk].phase == "ready":
                self._run(self.kept[pk])
        for pk in steps.forget:
            del self.kept[pk]

    def _new(self, pk: str, spec: Any) -> Kept:
        return Kept(
            id=pk,
            task=int(spec["task_dir"].rpartition("-")[2]),
            rank=int(spec["rank"]),
            cards=frozenset(spec["cards"]),
            waits_for_go=bool(spec.get("wait_for_go")) and spec["command"] is not None,
        )

    def _run(self, kept: Kept) -> None:
        kept.phase, kept.began = "running", True
        self.starts.append(kept.id)

    def _stop(self, kept: Kept) -> None:
        if kept.phase in {"starting", "ready"}:
            kept.finish(detail=STOPPED_EARLY, by_itself=False)
        elif kept.phase == "running":
            kept.phase = "ending"

    def prepare(self, kept: Kept) -> None:
        """Let a keeper bring what it needs: then the command runs, or waits for the gang."""
        if kept.phase == "starting":
            if kept.waits_for_go:
                kept.phase = "ready"
            else:
                self._run(kept)

    def leave(self, kept: Kept, how: str) -> None:
        """Let something of an instance come to its end: by itself, as ordered, or because its keeper died."""
        if kept.phase == "ending":
            kept.finish(exit_signal=15, by_itself=False)
        elif kept.phase == "running":
            ends: dict[str, dict[str, Any]] = {
                "well": {"exit_code": 0, "by_itself": True},
                "badly": {"exit_code": 3, "by_itself": True},
                "killed": {"exit_signal": 9, "by_itself": True},
                "keeper": {"detail": KEEPER_LOST},
            }
            kept.finish(**ends[how])
        elif kept.phase in {"starting", "ready"} and how != "well":
            kept.finish(detail="The folder could not be made.", by_itself=True)

    def alive(self) -> list[Alive]:
        """Return what runs here now, as a look at the processes would find it."""
        return [
            Alive(
                pid=place,
                start=0,
                instance=kept.id,
                task=kept.task,
                rank=kept.rank,
                host=self.name,
                cards=kept.cards,
            )
            for place, kept in enumerate(self.kept.values(), 1)
            if kept.phase in LIVE
        ]
