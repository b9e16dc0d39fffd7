"""What happened to a task, as sentences: of its time line on the page, and of the API's events."""

from collections.abc import Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from cluster import host_sentences
from jobs import endings
from jobs.models import TaskClass

Args = Mapping[str, Any]

# By an event's code, or by its code and the state it led to where that changes the meaning; placeholders are
# the event's arguments. How attempts end has its sentences in jobs/endings.py.
SENTENCES = {
    "submitted": gettext_lazy("Submitted"),
    "running": gettext_lazy("All its processes run"),
    "succeeded:stopping": gettext_lazy("Its start command ended well, the idle members are stopped"),
    "evicted:evicting": gettext_lazy("Evicted: told to leave its cards"),
    "evicted:queued": gettext_lazy("Its cards are free, and it waits to be started again"),
    "evicted:evicted": gettext_lazy("Its cards are free; it does not ask to be started again"),
    "promoted": gettext_lazy("Turned high in place: quota became free"),
    "claim_dropped": gettext_lazy("The cards that were held for it were given up"),
    "stop:stopping": gettext_lazy("Told to stop"),
    "hold": gettext_lazy("Held"),
    "release": gettext_lazy("Released into the queue"),
    "priority_low": gettext_lazy("Its priority was set to low"),
    "priority_medium": gettext_lazy("Its priority was set to medium"),
    "priority_high": gettext_lazy("Its priority was set to high"),
    "keep": gettext_lazy("It ended, and its place is kept"),
    "free": gettext_lazy("Its kept place was given up"),
    "keep_over": gettext_lazy("The time of its kept place is over"),
    "place_taken": gettext_lazy("Its kept place was taken"),
}

RULES: dict[str, Promise] = {
    "victim": gettext_lazy("its cards were the cheapest to give up"),
    "guarantee": gettext_lazy("the guarantee of a high task needed its cards"),
    "slice": gettext_lazy("its time slice was over"),
    "keeping": gettext_lazy("a high task needed its kept place"),
    "reservation": gettext_lazy("its cards are reserved"),
    "drain": gettext_lazy("its host is being drained"),
}


def sentence(code: str, args: Args, new_state: str = "") -> str:
    """Return the sentence of an event; one without a sentence is shown as it is, with its arguments."""
    if code in {"started", "started_again"}:
        return _started(code, args)
    said = SENTENCES.get(f"{code}:{new_state}") or SENTENCES.get(code)
    if said is None and code in endings.ENDINGS:
        return endings.sentence(code, args)
    try:
        text = str(said) % args if said else _as_it_is(code, args)
    except (KeyError, TypeError, ValueError):
        return _as_it_is(code, args)
    if detail := args.get("detail"):
        return _("%(said)s: %(detail)s") % {"said": text, "detail": host_sentences.shown(str(detail))}
    return text


def rule(args: Args) -> str:
    """Return by which rule a task was evicted, or the empty text."""
    name = str(args.get("rule", ""))
    return str(RULES.get(name, name))


def evicted(rule_name: str, causer: int | None, business: str) -> str:
    """Return why an attempt was evicted: by which rule, and for which task where there is one; blank if unknown."""
    if not rule_name:
        return ""
    words = {"task": causer, "business": business, "rule": rule({"rule": rule_name})}
    said = _("Evicted for task %(task)s of %(business)s: %(rule)s") if causer else _("Evicted: %(rule)s")
    return said % words


def _started(code: str, args: Args) -> str:
    hosts = args.get("hosts")
    if not isinstance(hosts, Mapping) or "gpu_type" not in args:
        return _as_it_is(code, args)
    kind = str(args.get("class", ""))
    numbers = {
        "cards": sum(len(cards) for cards in hosts.values()),
        "gpu_type": args["gpu_type"],
        "hosts": ", ".join(hosts),
        "class": dict(TaskClass.choices).get(kind, kind),
    }
    if code == "started":
        said = ngettext(
            "Given %(cards)d %(gpu_type)s card on %(hosts)s, as %(class)s",
            "Given %(cards)d %(gpu_type)s cards on %(hosts)s, as %(class)s",
            numbers["cards"],
        )
    else:
        said = ngettext(
            "Started again with %(cards)d %(gpu_type)s card on %(hosts)s, as %(class)s",
            "Started again with %(cards)d %(gpu_type)s cards on %(hosts)s, as %(class)s",
            numbers["cards"],
        )
    return said % numbers


def _as_it_is(code: str, args: Args) -> str:
    shown = ", ".join(f"{key}: {value}" for key, value in args.items())
    return f"{code} ({shown})" if shown else code
