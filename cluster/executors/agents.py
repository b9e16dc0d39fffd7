"""Instances on hosts with an agent: rows that the agents read and report on; see cluster/sync.py."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from cluster import clock, hints, rows, vault
from cluster.executors.base import NewInstance, Observed
from cluster.models import Card, CardLease, Instance

GONE = Instance.Phase.GONE


def launch(instances: Sequence[NewInstance]) -> list[uuid.UUID]:
    """Want these to run and lease their cards; django.db.IntegrityError: a card is leased already."""
    ids = [uuid.uuid4() for _ in instances]
    now = clock.now()
    rows.insert(
        Instance,
        [
            (pk, new.host_id, new.gang, new.rank, new.label, new.spec, vault.seal(dict(new.secrets)))
            for pk, new in zip(ids, instances, strict=True)
        ],
        *("id", "host", "gang", "rank", "label", "spec", "secrets"),
        **{"created_at": now, "wanted": True, "phase": Instance.Phase.PENDING.value},
        **{"detail": "", "cause": "", "log_bytes": 0},
    )
    leases = [(card, pk, new.gang) for pk, new in zip(ids, instances, strict=True) for card in new.card_ids]
    rows.insert(CardLease, leases, "card", "instance", "gang", leased_at=now)
    _tell({new.host_id for new in instances})
    return ids


def stop(gangs: Iterable[int]) -> int:
    """Want these gangs gone; asking again changes nothing. Return how many members were newly asked."""
    with transaction.atomic(savepoint=False):
        wanted = Instance.objects.filter(gang__in=rows.among(gangs), wanted=True).exclude(phase=GONE)
        hosts = rows.update_locked(wanted, "host", wanted=False, stop_asked_at=clock.now())
        _tell(hosts)
    return len(hosts)


def release(gangs: Iterable[int]) -> int:
    """Give back the cards of those members that are gone, and return how many cards that were."""
    leases = CardLease.objects.filter(
        released_at__isnull=True, instance__gang__in=list(gangs), instance__phase=GONE
    )
    # Never before the lease began, whatever the clocks of two servers say: the database would refuse it.
    released = leases.update(released_at=Greatest(F("leased_at"), clock.now()))
    if released:
        hints.publish("cards")
    return released


def observe(gangs: Iterable[int]) -> list[Observed]:
    """Return what is known of every member, by gang and rank. What is not known is never told as gone."""
    found = Instance.objects.filter(gang__in=list(gangs)).order_by("gang", "rank")
    observed = list(
        found.values(
            "id",
            "gang",
            "rank",
            "host_id",
            "phase",
            "exit_code",
            "exit_signal",
            "detail",
            "cause",
            "running_at",
            "gone_at",
            by_itself=F("ended_by_itself"),
            host_name=F("host__name"),
        )
    )
    broken = _broken_cards([row["id"] for row in observed if row["by_itself"] and row["exit_code"] != 0])
    return [Observed(**row, broken_cards=broken.get(row["id"], "")) for row in observed]


def _broken_cards(failed: Sequence[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return which cards of these members failed, and how, in words; one query, none where none of them failed."""
    if not failed:
        return {}
    faulty = (Card.State.BROKEN, Card.State.MISSING)
    leases = CardLease.objects.filter(instance__in=failed, released_at=None, card__state__in=faulty)
    found: dict[uuid.UUID, list[str]] = defaultdict(list)
    for pk, index, state, why in leases.order_by("card__index").values_list(
        "instance", "card__index", "card__state", "card__state_reason"
    ):
        found[pk].append(f"card {index}: {why or state}")
    return {pk: "; ".join(cards) for pk, cards in found.items()}


def abandon(hosts: Iterable[int], detail: str) -> int:
    """Record as gone what runs on these hosts, which nobody may ever report on; return how many members.

    Only for hosts that are lost or removed: elsewhere the end has to be seen. What still runs there is ended
    when the host comes back, and cluster/sync.py keeps it lost until then, so that no card is given twice.
    """
    with transaction.atomic(savepoint=False):
        silent = Instance.objects.filter(host__in=list(hosts)).exclude(phase=GONE)
        ended = {"phase": GONE, "gone_at": clock.now(), "wanted": False, "detail": detail}
        return len(rows.update_locked(silent, "host", **ended))


def _tell(hosts: Iterable[int]) -> None:
    hints.publish(*(hints.host_topic(host) for host in sorted(set(hosts))))
