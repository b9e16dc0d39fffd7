"""What there is: hosts register, cards come and go, silent hosts are lost, and how many cards are free."""

import hashlib
import logging
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from cluster import hints, host_events, host_moves
from cluster.host_states import State
from cluster.models import Card, CardLease, GpuType, Host, Region
from cluster.prepared import Prepared
from cluster.reports import CardReport

log = logging.getLogger(__name__)
NAME_AT_MOST = Host._meta.get_field("name").max_length or 128
RANGES = ((0, 0), (1, 3), (4, 7), (8, 16), (17, 32), (33, 64))  # above: 65 and more


class NameTaken(Exception):
    """A host of this name is registered already."""


def digest(secret: str) -> str:
    """Return what is stored of a host's random token (a slow hash would add nothing)."""
    return hashlib.sha256(secret.encode()).hexdigest()


def register(name: str, region: str, address: str) -> tuple[int, str]:
    """Enter a host, or one that an operator freed, and return its id and its new token.

    A blank region means the only one there is, else "default". Raises NameTaken.
    """
    secret = secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            host = _claim_name(name, _region(region), address, digest(secret))
    except IntegrityError as error:  # two at once: the other was first
        raise NameTaken from error
    log.info("host %s registered as %s", host, name)
    hints.publish("cards")
    return host, secret


def _claim_name(name: str, region: Region, address: str, token_hash: str) -> int:
    facts = {"region": region, "address": address, "token_hash": token_hash}
    host, made = Host.objects.get_or_create(name=name, defaults=facts)
    if made:
        host_events.note(host.pk, "registered", args={"region": region.name})
        return host.pk
    # An operator blanks the token to free the name. One that is lost stays so until its agent says what runs there.
    free = Host.objects.filter(pk=host.pk, token_hash="", node="")  # a node of a cluster has no agent
    if not free.update(**facts, machine="", seat=""):
        raise NameTaken
    host_events.note(host.pk, "registered_again")
    # One that was removed is ready again then.
    if host.state == State.REMOVED:
        host_moves.move(host.pk, State.REMOVED, State.READY)
    return host.pk


def enter_node(region: Region, node: str) -> int:
    """Enter a node of the region's Kubernetes cluster as a host, and return its id; its name is the node's, if free."""
    name = node[:NAME_AT_MOST]
    if Host.objects.filter(name=name).exists():
        name = f"{node}.{region.name}"[:NAME_AT_MOST]
    host, made = Host.objects.get_or_create(region=region, node=node, defaults={"name": name})
    if made:
        host_events.note(host.pk, "registered", args={"region": region.name})
        log.info("host %s entered for the node %s", host.pk, node)
    return host.pk


def _region(name: str) -> Region:
    if not name:
        found = list(Region.objects.all()[:2])
        if len(found) == 1:
            return found[0]
    return Region.objects.get_or_create(name=name or "default")[0]


def changed_cards(host_id: int, reported: Sequence[CardReport]) -> list[CardReport]:
    """Return the cards that differ from their rows; those no longer reported come back as missing."""
    rows = {
        index: (
            names,
            CardReport(
                index=index, uuid=uuid, gpu_type=name, memory_mib=mib, state=state, reason=why, fault=fault
            ),
        )
        for index, uuid, name, names, mib, state, why, fault in _CARDS.ask(host_id)
    }
    changed = [card for card in reported if card.index not in rows or not _same(card, *rows[card.index])]
    gone = rows.keys() - {card.index for card in reported}
    return changed + [
        _missing(rows[index][1]) for index in sorted(gone) if rows[index][1].state != Card.State.MISSING
    ]


_FACTS = ("uuid", "gpu_type__name", "gpu_type__aliases", "memory_mib", "state", "state_reason", "fault")
_CARDS = Prepared(lambda host: Card.objects.filter(host=host).order_by().values_list("index", *_FACTS), int)


def _same(card: CardReport, aliases: list[str], row: CardReport) -> bool:
    names = {row.gpu_type.casefold(), *(alias.casefold() for alias in aliases)}
    return card.gpu_type.casefold() in names and _facts(card) == _facts(row)


def _facts(card: CardReport) -> tuple[object, ...]:
    return card.uuid, card.memory_mib, card.state, card.reason, card.fault


def _missing(row: CardReport) -> CardReport:
    return CardReport(
        index=row.index,
        uuid=row.uuid,
        gpu_type=row.gpu_type,
        memory_mib=row.memory_mib,
        state=Card.State.MISSING,
        reason="",
    )


def report_cards(host_id: int, changed: Sequence[CardReport]) -> None:
    """Write cards that changed, in a fixed number of statements; new types of card are made by name."""
    if not changed:
        return
    types = _types(card.gpu_type for card in changed)
    Card.objects.bulk_create(
        (
            Card(
                host_id=host_id,
                index=card.index,
                uuid=card.uuid,
                gpu_type=types[card.gpu_type.casefold()],
                memory_mib=card.memory_mib,
                state=card.state,
                state_reason=card.reason,
                fault=card.fault,
            )
            for card in changed
        ),
        update_conflicts=True,
        unique_fields=["host", "index"],
        update_fields=["uuid", "gpu_type", "memory_mib", "state", "state_reason", "fault"],
    )


def _types(names: Iterable[str]) -> dict[str, GpuType]:
    found = GpuType.objects.by_name()
    for name in names:
        if name.casefold() not in found:
            found[name.casefold()] = GpuType.objects.get_or_create(name=name)[0]
    return found


def type_names() -> dict[int, str]:
    """Return the names of all GPU types by id; one query."""
    return dict(GpuType.objects.values_list("pk", "name"))


def sweep(now: datetime, lost_after_s: float, guard: Callable[[], None] = lambda: None) -> list[int]:
    """Mark hosts silent for longer than `lost_after_s` as lost, and return the ids of the newly lost.

    A host that never reported is not lost: it never had anything to lose. `guard` is called in the transaction
    of each write and raises where the caller may not write any more.
    """
    cutoff = now - timedelta(seconds=lost_after_s)
    silent = Host.objects.filter(lost_since__isnull=True, last_seen_at__lt=cutoff)
    lost = [
        pk
        for pk, seen_at in silent.values_list("pk", "last_seen_at")
        if _lose(silent, pk, seen_at, now, guard)
    ]
    if lost:
        log.warning("hosts lost after %g s of silence: %s", lost_after_s, lost)
        hints.publish("cards")
        hints.wake_pass()
    return lost


def _lose(
    silent: QuerySet[Host], pk: int, seen_at: datetime | None, now: datetime, guard: Callable[[], None]
) -> bool:
    """Mark one silent host as lost; the count of the update tells whether it was this call that marked it."""
    with transaction.atomic():
        guard()
        if not silent.filter(pk=pk).update(lost_since=now):
            return False
        silent_s = round((now - seen_at).total_seconds()) if seen_at else 0
        host_events.note(pk, "lost", args={"silent_s": silent_s}, at=now)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeCards:
    """Free cards of one type in one region, exactly and as the range that everybody may see."""

    region_id: int
    region: str
    gpu_type_id: int
    gpu_type: str
    free: int
    cards: int  # all that there are, in use and out of order ones too
    largest_block: int  # on one host
    low: int
    high: int | None  # None: no upper end
    hosts_by_free: tuple[int, ...]  # the n-th: how many hosts have n cards free, from 0 on
    as_of: datetime

    @property
    def most(self) -> int | None:
        """Return the upper end of the range, which is no more than there are; None: it has none."""
        return None if self.high is None else min(self.high, self.cards)

    @property
    def largest_gang(self) -> tuple[int, int]:
        """Return (hosts, cards on each) of the task of the most cards that fits; on the fewest hosts in ties."""
        enough = [sum(self.hosts_by_free[cards:]) for cards in range(len(self.hosts_by_free))]
        _, cards = max((hosts * cards, cards) for cards, hosts in enumerate(enough))
        return (enough[cards], cards) if cards else (0, 0)


def free_cards(now: datetime, held: Mapping[int, Mapping[int, int]] | None = None) -> list[FreeCards]:
    """Return free cards per region and type, both by name, with those of which none is free; one query.

    `held`: host id → type id → cards that are kept there for somebody and so are not free.
    """
    held = held or {}
    blocks: dict[tuple[str, str, int, int], list[int]] = defaultdict(list)
    there: Counter[tuple[str, str, int, int]] = Counter()
    for region, gpu_type, region_id, type_id, host, state, lost_since, free, cards in _free_by_host():
        usable = state == Host.State.READY and lost_since is None
        kept = held.get(host, {}).get(type_id, 0)
        blocks[region, gpu_type, region_id, type_id].append(max(0, free - kept) if usable else 0)
        there[region, gpu_type, region_id, type_id] += cards
    return [_free(*key, numbers, there[key], now) for key, numbers in sorted(blocks.items())]


def _free_by_host() -> Iterable[tuple[str, str, int, int, int, str, datetime | None, int, int]]:
    leased = CardLease.objects.filter(card=OuterRef("pk"), released_at__isnull=True)
    is_free = Q(~Exists(leased), state=Card.State.OK)
    return (
        Card.objects.exclude(state=Card.State.MISSING)
        .exclude(host__state=Host.State.REMOVED)
        .values("host__region__name", "gpu_type__name", "host__region_id", "gpu_type_id", "host_id")
        .annotate(free=Count("pk", filter=is_free), cards=Count("pk"))
        .values_list(
            "host__region__name",
            "gpu_type__name",
            "host__region_id",
            "gpu_type_id",
            "host_id",
            "host__state",
            "host__lost_since",
            "free",
            "cards",
        )
        .order_by()
    )


def _free(
    region: str, gpu_type: str, region_id: int, type_id: int, blocks: list[int], cards: int, now: datetime
) -> FreeCards:
    free = sum(blocks)
    low, high = next((pair for pair in RANGES if free <= pair[1]), (65, None))
    return FreeCards(
        region_id=region_id,
        region=region,
        gpu_type_id=type_id,
        gpu_type=gpu_type,
        free=free,
        cards=cards,
        largest_block=max(blocks),
        low=low,
        high=high,
        hosts_by_free=tuple(blocks.count(cards) for cards in range(max(blocks) + 1)),
        as_of=now,
    )
