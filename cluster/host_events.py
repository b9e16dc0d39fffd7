"""What happened to hosts: a row for each event, the sentence it is shown as, and what operators should look at."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from cluster import clock, host_sentences
from cluster.agent.protocol import OLDEST, PROTOCOL
from cluster.fencing import QUIET_S
from cluster.models import Host, HostEvent

Args = Mapping[str, Any]
ONCE_IN = timedelta(hours=1)  # what a host's agent repeats is noted so often at most
CLOCK_OFF_S = 30.0  # a clock that differs by more than this is worth a warning; nothing is decided by it
CLOCK_RIGHT_S = 20.0  # one that was off is right again below this: between both nothing is told anew

# Placeholders are the event's arguments; `quarantine`, `spared` and `calls_fail` have functions of their own.
SENTENCES = {
    "registered": gettext_lazy("Registered in %(region)s"),
    "registered_again": gettext_lazy("Registered again, with a new token"),
    "token_reset": gettext_lazy("Its token was reset: its agent has to register again"),
    "machine_accepted": gettext_lazy("Another machine may speak for it now"),
    "cordon": gettext_lazy("Cordoned: takes no starts"),
    "drain": gettext_lazy("Draining: takes no starts, and its elastic tasks leave"),
    "uncordon": gettext_lazy("Takes tasks again"),
    "remove": gettext_lazy("Removed: what ran on it ends as lost"),
    "restore": gettext_lazy("Restored after it was removed"),
    "explained": gettext_lazy("Another reason was given for its state"),
    "lost": gettext_lazy("Lost: not heard for %(silent_s)s s"),
    "back": gettext_lazy("Back, and nothing runs on it that should not"),
    "will_not_die": gettext_lazy("A process will not die: %(label)s. Its cards stay with it until it does"),
    "renamed": gettext_lazy("Renamed from %(old)s to %(new)s"),
    "name_taken": gettext_lazy(
        "Its agent calls it %(new)s now, as another host is called already: it keeps its name"
    ),
    "clock_off": gettext_lazy("Its clock is off by %(offset_s)s s; the platform goes by its own"),
    "clock_right": gettext_lazy("Its clock is right again"),
    "calls_well": gettext_lazy("Its calls to the platform do not fail any more"),
    "agent_old": gettext_lazy(
        "Its agent speaks protocol %(theirs)s, the platform %(ours)s: install a newer agent"
    ),
    "agent_too_old": gettext_lazy(
        "Its agent speaks protocol %(theirs)s and is refused: install the agent of the platform's version"
    ),
    "second_agent": gettext_lazy(
        "A second agent with this host's token was refused; it called from %(address)s"
    ),
    "card_broken": gettext_lazy("Out: card %(cards)s. %(reason)s"),
    "card_external": gettext_lazy("Card %(cards)s is %(reason)s"),
    "card_flips": gettext_lazy("Card %(cards)s is used from outside, and is not, several times a minute"),
    "card_missing": gettext_lazy("Gone: card %(cards)s"),
    "card_back": gettext_lazy("Back: card %(cards)s"),
    "card_cleared": gettext_lazy("Taken for cured: card %(cards)s, which had: %(reason)s"),
    "another_machine": gettext_lazy(
        "Another machine with this host's token was refused; it called from %(address)s"
    ),
}


def note(
    host_id: int,
    code: str,
    *,
    args: Args | None = None,
    reason: str = "",
    actor_id: int | None = None,
    **more: Any,
) -> HostEvent:
    """Write an event of a host; `more` are further fields of it."""
    return HostEvent.objects.create(
        host_id=host_id,
        at=more.pop("at", None) or clock.now(),
        code=code,
        args=dict(args or {}),
        reason=reason,
        actor_id=actor_id,
        **more,
    )


def note_once(host_id: int, code: str, args: Args, now: datetime) -> bool:
    """Write an event that is told again and again, unless the same was written lately; say whether it was."""
    lately = HostEvent.objects.filter(host=host_id, code=code, args=dict(args), at__gt=now - ONCE_IN)
    if lately.exists():
        return False
    note(host_id, code, args=args, at=now)
    return True


def remove_old(now: datetime) -> int:
    """Remove what happened longer ago than the setting says, and return how many that were; 0 days: nothing ever."""
    days: int = settings.HOST_EVENT_DAYS
    return HostEvent.objects.filter(at__lt=now - timedelta(days=days)).delete()[0] if days else 0


def sentence(code: str, args: Args) -> str:
    """Return what happened as a sentence; a code without one is shown as it is."""
    if code in {"quarantine", "spared"}:
        said = failed_starts(args)
        if code == "quarantine":
            return said
        if args.get("alone"):
            return _("Not quarantined, as no other host in use has cards of its type. %s") % said
        return _("Not quarantined, as too many hosts are already. %s") % said
    if code == "calls_fail":
        return failed_calls(args)
    try:
        return str(SENTENCES[code]) % args
    except (KeyError, TypeError, ValueError):
        return f"{code} {dict(args)}" if args else code


def failed_starts(args: Args) -> str:
    """Return why a host was quarantined, with the names of what failed there; "" where it was not."""
    names = [str(name) for name in args.get("failed", ())]
    if not names:
        return ""
    text = ngettext(
        "%(number)d task failed at start here: %(names)s",
        "%(number)d tasks failed at start here: %(names)s",
        len(names),
    )
    return text % {"number": len(names), "names": ", ".join(names)}


def failed_calls(args: Args) -> str:
    """Return how a host's calls to the platform fail, from the figures of host_calls.py."""
    figures = {name: args.get(name, 0) for name in ("failed", "made", "over_s", "times", "longest_s")}
    times = figures["times"]
    text = ngettext(
        "Its calls to the platform fail again and again: %(failed)s of %(made)s in %(over_s)s s, at %(times)s time, "
        "for %(longest_s)s s at most. The last: %(fault)s",
        "Its calls to the platform fail again and again: %(failed)s of %(made)s in %(over_s)s s, at %(times)s times, "
        "for %(longest_s)s s at most. The last: %(fault)s",
        times if isinstance(times, int) else 0,  # an event's arguments may be anything, and stop no page
    )
    return text % {**figures, "fault": host_sentences.shown(str(args.get("fault", "")))}


def reason(state_reason: str, state_args: Args | None) -> str:
    """Return why a host is in its state: an operator's words, or the platform's."""
    args = state_args or {}
    return state_reason or failed_starts(args) or host_sentences.shown(str(args.get("node", "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What warnings of a host are made from."""

    agent_protocol: int | None
    clock_offset_s: float
    last_seen_at: datetime | None
    lost_since: datetime | None
    calls: Args | None = None  # of host_calls.py

    @classmethod
    def of(cls, host: Host) -> "Facts":
        """Return those of a row."""
        return cls(**{field.name: getattr(host, field.name) for field in fields(cls)})


def warnings(facts: Facts, now: datetime) -> list[str]:
    """Return what operators should look at on a host, a sentence each."""
    return [*_of_agent(facts), *_of_clock(facts), *_of_calls(facts), *_of_silence(facts, now)]


def _of_agent(facts: Facts) -> Iterable[str]:
    theirs = facts.agent_protocol
    if theirs is not None and theirs < PROTOCOL:
        code = "agent_old" if theirs >= OLDEST else "agent_too_old"
        yield sentence(code, {"theirs": theirs, "ours": PROTOCOL})


def _of_clock(facts: Facts) -> Iterable[str]:
    if is_off(facts.clock_offset_s):
        yield sentence("clock_off", {"offset_s": round(facts.clock_offset_s)})


def _of_calls(facts: Facts) -> Iterable[str]:
    if facts.calls and facts.lost_since is None:  # lost, it tells nothing of now
        yield failed_calls(facts.calls)


def _of_silence(facts: Facts, now: datetime) -> Iterable[str]:
    silent_s = (now - facts.last_seen_at).total_seconds() if facts.last_seen_at else 0.0
    if facts.lost_since is None and silent_s > QUIET_S:
        yield _("It was not heard for %d s") % silent_s


def is_off(offset_s: float) -> bool:
    """Say whether a clock is off by more than calls take."""
    return abs(offset_s) > CLOCK_OFF_S


def was_off(host: Host) -> bool:
    """Say whether the last that was told of a host's clock is that it is off; asks the events only where it must."""
    offset_s = abs(host.clock_offset_s)
    if not CLOCK_RIGHT_S <= offset_s <= CLOCK_OFF_S:
        return offset_s > CLOCK_OFF_S
    told = HostEvent.objects.filter(host=host, code__in=("clock_off", "clock_right")).order_by("-id")
    return told.values_list("code", flat=True).first() == "clock_off"
