"""What was told to end long ago and does not: its cards stay with it, and whoever looks has to hear of it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from cluster import host_events
from cluster.agent.orders import GRACE_S_AT_MOST
from cluster.models import Instance

STUCK_AFTER = timedelta(seconds=2 * GRACE_S_AT_MOST)  # KILL came long before


def note(now: datetime) -> Sequence[str]:
    """Write an event for each host that is heard and has such instances; return their labels, in order."""
    told = Instance.objects.exclude(phase=Instance.Phase.GONE).filter(wanted=False)
    stuck = told.filter(stop_asked_at__lt=now - STUCK_AFTER, host__lost_since=None).order_by("label", "pk")
    found = list(stuck.values_list("host", "label"))
    for host, label in found:
        host_events.note_once(host, "will_not_die", {"label": label}, now)
    return [label for _host, label in found]


def sentence(phase: str, asked_at: datetime | None, lost_since: datetime | None, now: datetime) -> str:
    """Return that an instance which was asked to end is stuck; "" where it is not, or its host is not heard."""
    if phase == Instance.Phase.GONE or asked_at is None or lost_since is not None:
        return ""
    if asked_at >= now - STUCK_AFTER:
        return ""
    return _("A process of it will not die: the cards stay with it until it does.")
