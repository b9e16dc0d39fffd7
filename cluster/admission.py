"""What a report says of its host's agent: whether it may speak for the host, and what of it operators should know."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from cluster import fencing, host_events
from cluster.agent.protocol import PROTOCOL
from cluster.models import Host
from cluster.reports import Report


def check(host: Host, report: Report, now: datetime) -> None:
    """Raise fencing.Refused, and note it, where another agent speaks for the host; nothing of its is touched."""
    heard_s = (now - host.last_seen_at).total_seconds() if host.last_seen_at else None
    known = fencing.Speaker(boot=host.agent_boot, machine=host.machine, seat=host.seat)
    told = fencing.Speaker(boot=report.boot, machine=report.machine, seat=report.seat)
    try:
        fencing.check(known, told, heard_s)
    except fencing.Refused as refused:
        host_events.note_once(host.pk, refused.code, {"address": report.address}, now)
        raise


def sentence(refused: fencing.Refused, name: str) -> str:
    """Return what a refused agent is told, with the way out."""
    if isinstance(refused, fencing.Second):
        words = {"host": name, "heard": round(refused.heard_s), "quiet": round(fencing.QUIET_S)}
        return (
            _(
                "Another agent speaks for %(host)s and was heard %(heard)d s ago. If this machine was only started "
                "again, it is let in once that one is silent for %(quiet)d s; if this is a copy of it, stop this "
                "agent, empty its state folder and let it join under a name of its own."
            )
            % words
        )
    return _(
        "%(host)s is another machine: this is a copy of its disk or folder. Empty the state folder of this agent and "
        'let it join under a name of its own; if this machine takes the place of the other, choose "Let another '
        'machine speak for it" for %(host)s in the admin.'
    ) % {"host": name}


def notice(report: Report) -> str:
    """Return what an agent is told of itself; "" where there is nothing."""
    if report.protocol >= PROTOCOL:
        return ""
    return _(
        "This agent speaks protocol %(theirs)d, the platform %(ours)d: it is served for now; install the agent of "
        "the platform's version."
    ) % {"theirs": report.protocol, "ours": PROTOCOL}


def facts(host: Host, report: Report) -> dict[str, Any]:
    """Return where the agent is and what it calls the host; a name that another host has is left alone."""
    found = {"machine": report.machine or host.machine, "seat": report.seat or host.seat}
    if _wants_name(host, report) and not _is_taken(report.name):
        found["name"] = report.name
    return found


def note(host: Host, report: Report, changed: Mapping[str, Any], now: datetime) -> None:
    """Write an event for what changed of a host that operators should know of; `host` is as it was before."""
    if "lost_since" in changed:
        host_events.note(host.pk, "back", at=now)
    if "name" in changed:
        host_events.note(host.pk, "renamed", args={"old": host.name, "new": report.name}, at=now)
    elif _wants_name(host, report):
        host_events.note(host.pk, "name_taken", args={"new": report.name}, at=now)
    if changed.get("agent_protocol", PROTOCOL) < PROTOCOL:
        args = {"theirs": report.protocol, "ours": PROTOCOL}
        host_events.note(host.pk, "agent_old", args=args, at=now)
    _note_clock(host, report.clock - now.timestamp(), now)
    if "calls" in changed and report.calls is not None:  # of an older agent nothing is known
        calls = changed["calls"]
        host_events.note(host.pk, "calls_fail" if calls else "calls_well", args=calls, at=now)


def note_too_old(host: Host, protocol: int, now: datetime) -> None:
    """Keep of a host that its agent is refused, so that operators see why it is lost."""
    Host.objects.filter(pk=host.pk).exclude(agent_protocol=protocol).update(agent_protocol=protocol)
    host_events.note_once(host.pk, "agent_too_old", {"theirs": protocol, "ours": PROTOCOL}, now)


def _note_clock(host: Host, offset_s: float, now: datetime) -> None:
    if host_events.is_off(offset_s):
        if not host_events.was_off(host):
            host_events.note(host.pk, "clock_off", args={"offset_s": round(offset_s)}, at=now)
    elif abs(offset_s) < host_events.CLOCK_RIGHT_S and host_events.was_off(host):
        host_events.note(host.pk, "clock_right", at=now)


def _wants_name(host: Host, report: Report) -> bool:
    """Say whether the agent calls the host otherwise: asked once for each start of it, as a name is an option."""
    return report.boot != host.agent_boot and report.name not in {"", host.name}


def _is_taken(name: str) -> bool:
    return Host.objects.filter(name=name).exists()
