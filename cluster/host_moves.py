"""The only writer of a host's state: compare-and-set, with an event row of who did it and why."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from cluster import characters, clock, hints, host_events, host_mails
from cluster.host_states import NEED_REASON, QUARANTINE, VERBS, State, may_move, target, verbs
from cluster.models import Host

REASON_AT_MOST = Host._meta.get_field("state_reason").max_length or 255


class IllegalMove(Exception):
    """The table of moves does not know this one: a fault of the program, not of a user."""


class Refused(Exception):
    """The state of the host forbids what was asked; `code` and `message` are for the caller."""

    def __init__(self, code: str, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.code, self.message = code, message


def move(
    host_id: int,
    old: State,
    new: State,
    *,
    actor_id: int | None = None,
    reason: str = "",
    args: Mapping[str, Any] | None = None,
) -> bool:
    """Move the host from `old` to `new`; False, and nothing changed, where it is not `old` any more.

    `args` are the platform's own reason, which host_events.py makes a sentence of.
    """
    if not may_move(old, new):
        raise IllegalMove(f"{old} → {new}")
    now = clock.now()
    values = {
        "state": new,
        "state_reason": reason,
        "state_args": dict(args) if args else None,
        "state_changed_at": now,
    }
    with transaction.atomic():
        if not Host.objects.filter(pk=host_id, state=old).update(**values):
            return False
        verb = next(verb for verb in (*VERBS, QUARANTINE) if target(old, verb) == new)
        states = {"old_state": old, "new_state": new}
        event = host_events.note(host_id, verb, args=args, reason=reason, actor_id=actor_id, at=now, **states)
        if verb == QUARANTINE:
            host_mails.keep(event)
        hints.publish(hints.host_topic(host_id), "cards")
        hints.wake_pass()
    return True


def explain(host_id: int, state: State, *, actor_id: int, reason: str) -> bool:
    """Say anew why the host is in its state; False, and nothing changed, where it is not any more."""
    with transaction.atomic():
        values = {"state_reason": reason, "state_args": None}
        if not Host.objects.filter(pk=host_id, state=state).update(**values):
            return False
        host_events.note(host_id, "explained", reason=reason, actor_id=actor_id)
        hints.publish("cards")
    return True


def act(host: Host, verb: str, *, actor_id: int, reason: str) -> None:
    """Do what an operator asks of the host as he sees it; raises Refused where its state forbids it."""
    old = State(host.state)
    new = target(old, verb)
    if new is None:
        allowed = ", ".join(verbs(old))
        words = {"host": host.name, "state": host.get_state_display(), "allowed": allowed}
        raise Refused("state", _("%(host)s is %(state)s: what can be done is %(allowed)s.") % words)
    if not move(host.pk, old, new, actor_id=actor_id, reason=reason):
        raise Refused("changed", _("%s was changed by somebody else just now: look again.") % host.name)


def fault_of(verb: str, reason: str) -> str:
    """Return what is wrong with the reason given for a verb, in a sentence; "" where nothing is."""
    if verb in NEED_REASON and not reason:
        return _("Say why, for those who wait for this host.")
    if len(reason) > REASON_AT_MOST or characters.bad_character(reason, lines=False):
        return _("Write at most %d printable characters.") % REASON_AT_MOST
    return ""
