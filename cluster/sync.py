"""One sync of an agent: what its report changes goes into rows, and what its host should run comes out."""

import hashlib
import logging
import uuid
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from cryptography.fernet import InvalidToken
from django.db import connection, transaction
from django.db.models import QuerySet

from cluster import admission, card_faults, card_metrics, commits, gangs, hints, host_calls, inventory, vault
from cluster.agent.protocol import PROTOCOL
from cluster.models import Host, Instance
from cluster.prepared import Prepared
from cluster.reports import CardReport, InstanceReport, Report
from cluster.secret_specs import filled

log = logging.getLogger(__name__)
SEEN_EVERY = timedelta(seconds=10)  # an idle host's row is not written more often than this

Phase = Instance.Phase
ORDER = {phase: place for place, phase in enumerate(Phase.values)}


Move = tuple[uuid.UUID, str, dict[str, Any]]  # id, phase so far, changes


class Late(Exception):
    """A newer report of this host was taken before."""


class NotKnown(Exception):
    """The host was removed, and nothing of ours is left on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the row of a live instance says."""

    phase: str
    gang: int = 0
    wanted: bool = True
    exit_code: int | None = None
    exit_signal: int | None = None
    ended_by_itself: bool | None = None
    detail: str = ""
    cause: str = ""
    commit: str = ""
    running_at: datetime | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    secrets: str = ""  # sealed


_COLUMNS = [column.name for column in fields(Known)]
_HOST = Prepared(
    lambda token: Host.objects.filter(token_hash=token).order_by().values_list(*_host_columns()), str
)
_KNOWN = Prepared(lambda host: _live(host).order_by("pk").values_list("pk", *_COLUMNS), int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What a host should run, and of what it may forget the end."""

    version: str
    # Id, whether to run, whether its gang is ready, spec, sealed secrets.
    instances: tuple[tuple[uuid.UUID, bool, bool, Mapping[str, Any], str], ...]
    forget: tuple[uuid.UUID, ...]
    notice: str = ""  # to the agent, of itself
    cleared: tuple[str, ...] = ()  # faults of its cards that are no more

    def document(self, now: datetime) -> dict[str, Any]:
        """Return the answer as it goes over the wire, the only place where secrets are in clear."""
        return {
            "version": self.version,
            "now": now.timestamp(),
            "instances": list(self._specs()),
            "forget": [str(pk) for pk in self.forget],
            "notice": self.notice,
            "cleared": list(self.cleared),
        }

    def _specs(self) -> Iterable[dict[str, Any]]:
        for pk, run, go, spec, sealed in self.instances:
            try:
                full = filled(spec, vault.unseal(sealed))
            except InvalidToken:
                # Started without its secrets it would fail in a way nobody understands.
                log.error("instance %s is not started: its secrets cannot be read with the present keys", pk)
                continue
            yield {"id": str(pk), "run": run, "go": go, "spec": full}


def host_of(secret: str) -> Host | None:
    """Return the host with this token."""
    for row in _HOST.ask(inventory.digest(secret)) if secret else ():
        return Host.from_db(connection.alias, _host_columns(), row)
    return None


def _host_columns() -> list[str]:
    return [column.attname for column in Host._meta.concrete_fields]


def take(host: Host, report: Report, now: datetime) -> Desired:
    """Write what the report changes, all or nothing, wake whoever cares, and answer it.

    Raises Late, NotKnown, or fencing.Refused where another agent speaks for the host. `host` is as it was read
    before. Nothing is written where nothing changed, but that the host was seen.
    """
    if report.boot == host.agent_boot and report.seq <= host.agent_seq:
        raise Late
    admission.check(host, report, now)
    known = _known(host.pk)
    if _is_dismissed(host.state, known, report):
        raise NotKnown
    cards = inventory.changed_cards(host.pk, report.cards)
    moves = _moves(known, report.instances, now)
    calls = host_calls.kept(host.calls, report.calls)
    facts = _facts(host, report, calls, clean=_is_clean(known, report))
    if cards or moves or facts or _is_time(host.last_seen_at, now):
        seen = {"last_seen_at": now, "clock_offset_s": report.clock - now.timestamp(), "calls": calls}
        _write(host, report, now, seen=seen, facts=facts, cards=cards, moves=moves, live=len(known))
        gangs.tell(
            {known[pk].gang for pk, old, _ in moves if old in gangs.UNREADY and gangs.waits(known[pk].spec)}
        )
        commits.tell({known[pk].gang for pk, _, changes in moves if "commit" in changes})
    card_metrics.keep(host.pk, report.minutes, now)
    return _answer(_moved(known, moves), report, host.cleared_faults)


def _is_time(seen_at: datetime | None, now: datetime) -> bool:
    """Say whether it is time to write down that a host was seen, as where our own clock was put back since."""
    return seen_at is None or abs(now - seen_at) >= SEEN_EVERY


def _write(
    host: Host,
    report: Report,
    now: datetime,
    *,
    seen: dict[str, Any],
    facts: dict[str, Any],
    cards: list[CardReport],
    moves: list[Move],
    live: int,
) -> None:
    with transaction.atomic() if cards or moves or facts else nullcontext():
        _claim(host, report, seen | facts)
        if "lost_since" in facts and _live(host.pk).count() != live:
            raise Late  # given up at this very moment: what runs there has to end before the host is back
        admission.note(host, report, facts, now)
        card_faults.note(host.pk, cards)
        inventory.report_cards(host.pk, cards)
        # In the order in which they are locked elsewhere: executors/agents.py.
        for pk, old, changes in sorted(moves, key=lambda move: move[0]):
            Instance.objects.filter(pk=pk, phase=old).update(**changes)
        if cards or moves or facts:
            hints.wake_pass()
        if cards or facts:
            hints.publish("cards")


def _known(host_id: int) -> dict[uuid.UUID, Known]:
    rows = _KNOWN.ask(host_id)
    return {pk: Known(**dict(zip(_COLUMNS, columns, strict=True))) for pk, *columns in rows}


def _live(host_id: int) -> QuerySet[Instance]:
    return Instance.objects.filter(host=host_id).exclude(phase=Phase.GONE)


def _moved(known: dict[uuid.UUID, Known], moves: list[Move]) -> dict[uuid.UUID, Known]:
    """Return what is known of the instances that still live after `moves`."""
    phases = {pk: changes.get("phase", old) for pk, old, changes in moves}
    return {
        pk: replace(row, phase=phases[pk]) if pk in phases else row
        for pk, row in known.items()
        if phases.get(pk) != Phase.GONE
    }


def _is_dismissed(state: str, known: Mapping[uuid.UUID, Known], report: Report) -> bool:
    """Say whether a host was removed and nothing of ours is left on it.

    Until then it is heard: only it can end what still runs there, also what the platform has given up, and
    say when that is gone.
    """
    if state != Host.State.REMOVED or known:
        return False
    return all(instance.phase == Phase.GONE for instance in report.instances)


def _is_clean(known: Mapping[uuid.UUID, Known], report: Report) -> bool:
    """Say whether nothing runs on the host that should not: a host that was lost may take work again."""
    return all(instance.phase == Phase.GONE or instance.id in known for instance in report.instances)


def _facts(host: Host, report: Report, calls: dict[str, Any] | None, *, clean: bool) -> dict[str, Any]:
    """Return what is new about the host itself; of its calls only that they begin to fail, or do no more."""
    new: dict[str, Any] = {
        "address": report.address,
        "offers": list(report.offers),
        "trouble": report.trouble,
        "agent_version": report.version,
        "agent_protocol": min(report.protocol, PROTOCOL),
        "agent_boot": report.boot,
        **admission.facts(host, report),
    }
    changed: dict[str, Any] = {name: value for name, value in new.items() if getattr(host, name) != value}
    if (calls is None) != (host.calls is None):
        changed["calls"] = calls
    if host.lost_since and clean:
        log.info("host %s is back", host.pk)
        changed["lost_since"] = None
    return changed


def _claim(host: Host, report: Report, values: Mapping[str, Any]) -> None:
    """Enter the report as the host's newest; raises Late where another was entered since `host` was read.

    As long as it succeeds, nobody else wrote what this report is compared with.
    """
    as_read = Host.objects.filter(
        pk=host.pk, token_hash=host.token_hash, agent_boot=host.agent_boot, agent_seq=host.agent_seq
    )
    if not as_read.update(agent_seq=report.seq, **values):
        raise Late


def _moves(known: Mapping[uuid.UUID, Known], reported: Iterable[InstanceReport], now: datetime) -> list[Move]:
    """Return what changed of each live instance of this host."""
    return [
        (instance.id, known[instance.id].phase, changes)
        for instance in reported
        if instance.id in known and (changes := step(known[instance.id], instance, now))
    ]


def step(known: Known, report: InstanceReport, now: datetime) -> dict[str, Any]:
    """Return what a report changes of a row: phases only go forward, and what is known stays known."""
    if ORDER[report.phase] < ORDER[known.phase]:
        return {}
    said = {
        "phase": report.phase,
        "exit_code": report.exit_code,
        "exit_signal": report.exit_signal,
        "ended_by_itself": report.by_itself,
        "detail": report.detail or None,
        "cause": report.cause or None,
        "commit": report.commit or None,
    }
    changes: dict[str, Any] = {
        name: value for name, value in said.items() if value is not None and value != getattr(known, name)
    }
    if not changes:
        return {}
    # One that ended between two reports was never seen running, but its exit says that it ran.
    ran = report.phase == Phase.RUNNING or (report.exit_code, report.exit_signal) != (None, None)
    if ran and known.running_at is None:
        changes["running_at"] = now
    if changes.get("phase") == Phase.GONE:
        changes["gone_at"] = now
    return {**changes, "log_bytes": report.log_bytes}


def desired(host: Host, report: Report) -> Desired:
    """Return what the host, as it was read at `report`, should run now.

    Raises Late where a newer report came in, its token is another by now (what is to run there is nothing for who
    had the old one), or the host was removed and nothing of ours is left on it.
    """
    found = Host.objects.filter(pk=host.pk, token_hash=host.token_hash)
    now = found.values_list("agent_boot", "agent_seq", "state", "cleared_faults").first()
    boot, seq, state, cleared = now or ("", 0, "", [])
    if boot != report.boot or seq > report.seq:
        raise Late
    known = _known(host.pk)
    if _is_dismissed(state, known, report):
        raise Late
    return _answer(known, report, cleared)


def _answer(live: dict[uuid.UUID, Known], report: Report, cleared_faults: Iterable[str]) -> Desired:
    """Say what of the live instances should run, and which of the reported faults of cards are cleared.

    One that the host had and lost (its folder was wiped) is never run a second time: it is to be ended,
    and the agent says that it is gone.
    """
    seen = report.seen()
    runs = {pk: row.wanted and (row.phase == Phase.PENDING or pk in seen) for pk, row in live.items()}
    goes = _going(live)
    chosen = commits.chosen({row.gang for row in live.values() if commits.follows(row.spec)})
    specs = {pk: _spec(row, chosen) for pk, row in live.items()}
    instances = tuple(
        # Once it runs the host has its secrets, and one that is to end needs none: an order to end never depends
        # on whether they can be read.
        (pk, runs[pk], pk in goes, specs[pk], row.secrets if runs[pk] and row.phase in gangs.UNREADY else "")
        for pk, row in live.items()
    )
    ended = (one.id for one in report.instances if one.phase == Phase.GONE)
    forget = tuple(sorted(pk for pk in ended if pk not in live))
    notice = admission.notice(report)
    cleared = tuple(sorted({card.fault for card in report.cards}.intersection(cleared_faults)))
    return Desired(
        version=_version(instances, forget, cleared),
        instances=instances,
        forget=forget,
        notice=notice,
        cleared=cleared,
    )


def _spec(row: Known, chosen: Mapping[int, str]) -> Mapping[str, Any]:
    """Return what an instance is to run, with the commit that its gang chose where it follows that."""
    return commits.told(row.spec, chosen.get(row.gang, "")) if commits.follows(row.spec) else row.spec


def _going(live: Mapping[uuid.UUID, Known]) -> set[uuid.UUID]:
    """Return the members of gangs that are to start their command now, or did; one query where some wait."""
    waiting = {pk: row for pk, row in live.items() if gangs.waits(row.spec)}
    ready = gangs.ready({row.gang for row in waiting.values() if row.phase == Phase.READY})
    went = (Phase.RUNNING, Phase.ENDING)  # told as before, so that its running is no news to its host
    return {pk for pk, row in waiting.items() if row.phase in went or row.gang in ready}


def _version(
    instances: Iterable[tuple[uuid.UUID, bool, bool, Any, Any]],
    forget: Iterable[uuid.UUID],
    cleared: Iterable[str],
) -> str:
    # Specs are never changed but by the commit of a gang, so that, ids and orders say it all.
    orders = [
        (str(pk), run, go, (spec.get("code") or {}).get("commit")) for pk, run, go, spec, _ in instances
    ]
    text = repr((orders, [str(pk) for pk in forget], list(cleared)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
