"""What an agent says of its host (see cluster/agent/protocol.py), read strictly into plain records."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from cluster.agent.protocol import CAUSES, PROTOCOL
from cluster.fields import Fields

CARDS_AT_MOST = 1024
MINUTES_AT_MOST = 1024
INSTANCES_AT_MOST = 10_000  # ended ones too, until their logs are sent
_XID = 9999  # eight of them fit into their column
_INT16, _INT32, _INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReport:
    """One card as the agent sees it."""

    index: int
    uuid: str
    gpu_type: str
    memory_mib: int
    state: str
    reason: str
    fault: str = ""  # the name of one that an operator can clear


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteReport:
    """What was measured on a card in one minute, as protocol.py has it."""

    card: int
    minute: int
    use_mean: int | None
    use_max: int | None
    memory_mean_mib: int | None
    memory_max_mib: int | None
    temperature_max_c: int | None
    power_mean_w: int | None
    power_max_w: int | None
    ecc_corrected: int | None
    ecc_uncorrected: int | None
    outside: int | None
    xids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsReport:
    """How the agent's calls went lately, as protocol.py has it."""

    over_s: int
    made: int
    failed: int
    times: int
    longest_s: int
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """One instance as the agent sees it."""

    id: uuid.UUID
    phase: str
    exit_code: int | None
    exit_signal: int | None
    by_itself: bool | None
    detail: str
    cause: str  # of protocol.CAUSES, or blank
    commit: str  # of the code that it runs, where that is from git
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One full report."""

    version: str
    boot: str
    seq: int
    clock: float  # the host's seconds since the epoch
    address: str
    offers: tuple[str, ...]
    trouble: str  # what is wrong with the host, in a sentence; blank: nothing
    cards: tuple[CardReport, ...]
    minutes: tuple[MinuteReport, ...] = ()  # what was measured on its cards
    calls: CallsReport | None = None  # None: an older agent, which does not count them
    instances: tuple[InstanceReport, ...]
    have: str
    wait_s: float
    protocol: int = PROTOCOL
    # What the agent calls the host, and where it is; an agent of protocol 1 says nothing of these.
    name: str = ""
    machine: str = ""
    seat: str = ""

    def seen(self) -> frozenset[uuid.UUID]:
        """Return the ids of the instances that are on the host."""
        return frozenset(instance.id for instance in self.instances)


def protocol_of(document: object) -> int | None:
    """Return the protocol that a document is written in, or None where it does not say, or says what is none."""
    number = document.get("protocol") if isinstance(document, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def read(document: object) -> Report:
    """Return the report that `document` holds; raises fields.Malformed with all its faults."""
    fields = Fields(document)
    report = Report(
        protocol=protocol_of(document) or 0,
        version=fields.name("version", 32),
        name=fields.name_or_blank("name", 128),
        machine=fields.name_or_blank("machine", 64),
        seat=fields.name_or_blank("seat", 64),
        boot=str(fields.uuid("boot")),
        seq=fields.number("seq", 1, _INT64),
        clock=fields.seconds("clock"),
        address=fields.name("address", 255, blank=True),
        offers=_offers(fields),
        trouble=fields.words("trouble", 255),
        cards=tuple(_card(card) for card in fields.objects("cards", CARDS_AT_MOST)),
        minutes=tuple(_minute(item) for item in fields.objects_or_none("minutes", MINUTES_AT_MOST)),
        calls=_calls(calls) if (calls := fields.object_or_none("calls")) else None,
        instances=tuple(_instance(item) for item in fields.objects("instances", INSTANCES_AT_MOST)),
        have=fields.name("have", 64, blank=True),
        wait_s=fields.seconds("wait_s"),
    )
    fields.check()
    _once(fields, "cards", (card.index for card in report.cards))
    _once(fields, "instances", (instance.id for instance in report.instances))
    fields.check()
    return report


def _offers(fields: Fields) -> tuple[str, ...]:
    offers = fields.items("offers", 16)
    if all(isinstance(offer, str) and offer.isidentifier() and len(offer) <= 32 for offer in offers):
        return tuple(sorted(set(offers)))
    fields.fault("offers", "value", _("A list of names is needed."))
    return ()


def _card(fields: Fields) -> CardReport:
    return CardReport(
        index=fields.number("index", 0, _INT16),
        uuid=fields.name("uuid", 96, blank=True),
        gpu_type=fields.name("gpu_type", 64),
        memory_mib=fields.number("memory_mib", 0, _INT32),
        state=fields.choice("state", ("ok", "broken", "external")),
        reason=fields.words("reason", 255),
        fault=fields.name_or_blank("fault", 32),
    )


def _minute(fields: Fields) -> MinuteReport:
    small = ("use_mean", "use_max", "temperature_max_c", "power_mean_w", "power_max_w", "outside")
    big = ("memory_mean_mib", "memory_max_mib", "ecc_corrected", "ecc_uncorrected")
    values = {name: fields.number_or_none(name, 0, _INT16) for name in small}
    values |= {name: fields.number_or_none(name, 0, _INT32) for name in big}
    return MinuteReport(
        card=fields.number("card", 0, _INT16),
        minute=fields.number("minute", 0, _INT32),
        xids=tuple(
            xid for xid in fields.items("xids", 8) if type(xid) is int and 0 <= xid <= _XID
        ),  # no bool
        **values,
    )


def _calls(fields: Fields) -> CallsReport:
    made = fields.number("made", 0, _INT32)
    failed = fields.number("failed", 0, made)
    return CallsReport(
        over_s=fields.number("over_s", 0, _INT32),
        made=made,
        failed=failed,
        times=fields.number("times", 0, failed),
        longest_s=fields.number("longest_s", 0, _INT32),
        fault=fields.words("fault", 255),
    )


def _instance(fields: Fields) -> InstanceReport:
    return InstanceReport(
        id=fields.uuid("id"),
        phase=fields.choice("phase", ("starting", "ready", "running", "ending", "gone")),
        exit_code=fields.number_or_none("exit_code", -_INT32, _INT32),
        exit_signal=fields.number_or_none("exit_signal", 0, _INT32),
        by_itself=fields.flag_or_none("by_itself"),
        detail=fields.words("detail", 512),
        cause=cause if (cause := fields.words("cause", 16)) in CAUSES else "",
        commit=fields.words("commit", 64),
        log_bytes=fields.number("log_bytes", 0, _INT64),
    )


def _once(fields: Fields, name: str, keys: Iterable[object]) -> None:
    seen = list(keys)
    if len(set(seen)) < len(seen):
        fields.fault(name, "duplicate", _("Each may stand here only once."))
