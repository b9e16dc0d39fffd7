"""When the members of a gang start their command: together, once every one of them is ready."""

from collections.abc import Collection, Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q

from cluster import hints
from cluster.models import Instance

Phase = Instance.Phase
UNREADY = (Phase.PENDING, Phase.STARTING)
# One that is leaving or gone without having run was never ready: the others must not start without it.
_NOT_READY = Q(phase__in=UNREADY) | Q(phase__in=(Phase.ENDING, Phase.GONE), running_at__isnull=True)


def waits(spec: Mapping[str, Any]) -> bool:
    """Say whether the member with this spec starts its command only when the others are ready."""
    return spec.get("wait_for_go") is True


def ready(gangs: Collection[int]) -> frozenset[int]:
    """Return those of the gangs whose members are all ready, or were; one query, none for no gangs."""
    if not gangs:
        return frozenset()
    missing = Instance.objects.filter(_NOT_READY, gang__in=gangs).values_list("gang", flat=True)
    return frozenset(gangs) - set(missing)


def tell(gangs: Collection[int]) -> None:
    """Tell the hosts of each gang that is ready, once the transaction at hand is committed.

    Looked up only then: of two members that became ready at once the later one sees both.
    """
    if gangs:
        transaction.on_commit(lambda: _tell(gangs))


def _tell(gangs: Collection[int]) -> None:
    hosts = Instance.objects.filter(gang__in=ready(gangs)).values_list("host", flat=True)
    hints.publish(*(hints.host_topic(host) for host in sorted(set(hosts))))
