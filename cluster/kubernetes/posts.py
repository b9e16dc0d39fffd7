"""One host of a cluster as its controller sees it: what would be reported of it, and what is to be done; no I/O."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cluster.agent import protocol
from cluster.agent.records import STOPPED_EARLY
from cluster.converge import Seen as Known
from cluster.converge import Steps, converge
from cluster.kubernetes import names
from cluster.kubernetes import seen as pods_seen
from cluster.reports import CardReport, InstanceReport
from cluster.sync import Desired

UNREADABLE = "The order cannot be read with the keys that the platform has now."
Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a report says that is news when it changes."""

    address: str
    trouble: str
    offers: tuple[str, ...]
    cards: tuple[CardReport, ...]
    instances: tuple[InstanceReport, ...]


@dataclass(slots=True)
class Post:
    """What is kept of one host between two rounds; losing it costs one report."""

    host: int
    pods: dict[uuid.UUID, Pod] = field(default_factory=dict)
    on_node: bool = True
    # Those that never had a pod, or have none any more.
    ended: dict[uuid.UUID, InstanceReport] = field(default_factory=dict)
    content: Content | None = None  # last reported
    marks: tuple[object, ...] = ()  # what the orders followed from
    desired: Desired | None = None
    placed: frozenset[uuid.UUID] = frozenset()  # of which the platform knows that they came here

    def instances(self) -> tuple[InstanceReport, ...]:
        """Return what is to be said of the instances on the host, by id."""
        found = dict(self.ended)
        for pk, pod in self.pods.items():
            found[pk] = report_of(pk, pods_seen.seen(pod, on_node=self.on_node))
        return tuple(found[pk] for pk in sorted(found))

    def steps(self, skip: Collection[uuid.UUID]) -> Steps:
        """Return what there is to do, but not to those that something is being done to."""
        if self.desired is None:
            return Steps()
        wanted = {str(pk): run for pk, run, *_ in self.desired.instances}
        forget = {str(pk) for pk in self.desired.forget}
        known = {str(one.id): Known.GONE if one.phase == "gone" else Known.LIVE for one in self.instances()}
        steps = converge(wanted, forget, known)
        spared = {str(pk) for pk in skip}
        return Steps(
            start=tuple(pk for pk in steps.start if pk not in spared),
            stop=tuple(pk for pk in steps.stop if pk not in spared),
            void=tuple(pk for pk in steps.void if pk not in spared),
            forget=tuple(pk for pk in steps.forget if pk not in spared),
        )

    def notes(self, hosts: Mapping[int, str]) -> Iterable[tuple[Pod, dict[str, str]]]:
        """Return what pods have to be told while they run, and do not know yet.

        `hosts` are the host files of gangs whose pods were made by others: the word to start brings them.
        """
        if self.desired is None:
            return
        for pk, run, go, spec, _sealed in self.desired.instances:
            pod = self.pods.get(pk)
            if pod is None or not run or not pod["metadata"].get("uid"):
                continue
            known, labels, code = names.annotations_of(pod), names.labels_of(pod), spec.get("code") or {}
            told: dict[str, str] = {}
            if go and labels.get(names.WAITS) and not known.get(names.GO):
                word = hosts.get(int(labels[names.GANG]), "") if names.ROLE in labels else "yes"
                told |= {names.GO: word} if word else {}
            if code.get("follow") and code.get("commit") and not known.get(names.COMMIT):
                told[names.COMMIT] = str(code["commit"])
            if told:
                yield pod, told

    def came(self, pk: uuid.UUID) -> bool:
        """Say whether the platform knows that the instance was on the host."""
        return pk in self.placed

    def void(self, pk: uuid.UUID, *, came: bool) -> None:
        """Note that nothing runs of an instance that has no pod; `came`: it had one."""
        # Its end was seen by nobody: the pod was removed by force, and its finalizer with it.
        detail = protocol.POD_LOST if came else STOPPED_EARLY
        self.ended[pk] = replace(gone(pk, detail), by_itself=None if came else False)

    def refuse(self, pk: uuid.UUID, sentence: str) -> None:
        """Note that the cluster does not take the pod of an instance."""
        self.ended[pk] = gone(pk, sentence)


def nothing_but(instances: Iterable[InstanceReport]) -> Desired:
    """Return the orders of a host that was removed and on which nothing of ours is left: what ended is forgotten."""
    return Desired(version="", instances=(), forget=tuple(one.id for one in instances))


def with_log(report: InstanceReport, log_bytes: int) -> InstanceReport:
    """Return the report with the length of its log."""
    return replace(report, log_bytes=log_bytes)


def gone(pk: uuid.UUID, detail: str) -> InstanceReport:
    """Return the report of an instance that never ran, by a fault that is nobody's order."""
    return report_of(pk, pods_seen.Seen(phase="gone", by_itself=True, detail=detail))


def report_of(pk: uuid.UUID, seen: pods_seen.Seen) -> InstanceReport:
    """Return what an agent would report of it; how long its log is, is looked up when that is sent."""
    return InstanceReport(
        id=pk,
        phase=seen.phase,
        exit_code=seen.exit_code,
        exit_signal=seen.exit_signal,
        by_itself=seen.by_itself,
        detail=seen.detail,
        cause=seen.cause,
        commit=seen.commit,
        log_bytes=0,
    )


def card_reports(cards: Sequence[Any]) -> tuple[CardReport, ...]:
    """Return cards of a node as an agent would report them."""
    return tuple(
        CardReport(
            index=card.index,
            uuid=card.uuid,
            gpu_type=card.gpu_type,
            memory_mib=card.memory_mib,
            state=card.state,
            reason=card.reason,
        )
        for card in cards
    )
