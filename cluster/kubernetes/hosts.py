"""The rows of a cluster's nodes: which hosts there are, what the platform wants of them, and that they are heard."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from cluster import gangs, host_moves, inventory
from cluster.host_states import State
from cluster.kubernetes.nodes import KnownCard, resource_of
from cluster.kubernetes.seat import Seat
from cluster.models import Card, CardLease, Host, Instance, Region

GONE_NODE = "The node is gone from its cluster."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A member that is to start."""

    seat: Seat
    resources: Mapping[str, int]  # what the cluster calls its cards, and how many of each


def region(name: str) -> Region:
    """Return the region of a cluster, made at its first start."""
    return Region.objects.get_or_create(name=name)[0]


def rows(of: Region) -> dict[str, Host]:
    """Return the hosts of the region's cluster by the name of their node."""
    return {host.node: host for host in Host.objects.filter(region=of).exclude(node="").order_by("pk")}


def enter(of: Region, nodes: Iterable[str], known: Mapping[str, Host]) -> dict[str, Host]:
    """Enter the nodes that have no row yet, and return the hosts of all."""
    new = sorted(set(nodes) - known.keys())
    for node in new:
        inventory.enter_node(of, node)
    return rows(of) if new else dict(known)


def known_cards(hosts: Iterable[int]) -> dict[int, list[KnownCard]]:
    """Return the cards of these hosts as they are known, in one query."""
    leased = CardLease.objects.filter(card=OuterRef("pk"), released_at__isnull=True)
    found: dict[int, list[KnownCard]] = defaultdict(list)
    cards = Card.objects.filter(host__in=list(hosts)).annotate(leased=Exists(leased)).order_by("index")
    for host, index, uid, state, is_leased in cards.values_list("host", "index", "uuid", "state", "leased"):
        found[host].append(KnownCard(index=index, uuid=uid, state=state, leased=is_leased))
    return found


def wanted(of: Region) -> dict[uuid.UUID, Seat]:
    """Return what the rows say of everything that lives on the cluster's nodes, in one query."""
    live = Instance.objects.filter(host__region=of).exclude(host__node="").exclude(phase=Instance.Phase.GONE)
    return {seat.id: seat for seat in _seats(live.order_by("pk"))}


def seats(gangs: Collection[int]) -> dict[int, list[Seat]]:
    """Return all members of these gangs by rank, also those that are gone, in one query; none for no gangs."""
    found: dict[int, list[Seat]] = {gang: [] for gang in gangs}
    if gangs:
        for seat in _seats(Instance.objects.filter(gang__in=list(gangs)).order_by("gang", "rank")):
            found[seat.gang].append(seat)
    return found


def _seats(rows: QuerySet[Instance]) -> list[Seat]:
    names = ("id", "gang", "rank", "host", "node", "phase", "wanted", "commit")
    columns = ("id", "gang", "rank", "host", "host__node", "phase", "wanted", "commit")
    return [Seat(**dict(zip(names, row, strict=True))) for row in rows.values_list(*columns)]


def led(gangs: Collection[int]) -> set[int]:
    """Return those of the gangs whose first member alone runs the command, in one query; none for no gangs."""
    if not gangs:
        return set()
    idle = Instance.objects.filter(gang__in=list(gangs), rank=1, spec__command=None)
    return set(idle.values_list("gang", flat=True))


def asked(instances: Sequence[uuid.UUID]) -> dict[uuid.UUID, Asked]:
    """Return where these instances are to run, and on which cards, in two queries."""
    leases = CardLease.objects.filter(instance__in=instances, released_at=None).order_by("card__index")
    cards: dict[uuid.UUID, Counter[str]] = defaultdict(Counter)
    for pk, uid in leases.values_list("instance", "card__uuid"):
        cards[pk][resource_of(uid)] += 1
    rows = _seats(Instance.objects.filter(pk__in=instances))
    return {seat.id: Asked(seat=seat, resources=cards[seat.id]) for seat in rows}


def kinds(of: Region) -> dict[str, list[str]]:
    """Return the names of the types that cards of the cluster's resources are of, such as nvidia.com/gpu."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    cards = Card.objects.filter(host__region=of).exclude(host__node="").order_by("pk")
    for uid, name in cards.values_list("uuid", "gpu_type__name"):
        found[resource_of(uid)][name] = None
    return {resource: list(names) for resource, names in found.items()}


def marks(live: Iterable[Seat]) -> dict[int, tuple[object, ...]]:
    """Return by host what its orders follow from: where that is as before, so are they.

    That is what is wanted of its instances, and of each gang whether all are ready and which commit was chosen.
    """
    every = list(live)
    # Asked of all its members, wherever they are; one query, none where nobody waits.
    ready = gangs.ready({row.gang for row in every if row.phase == Instance.Phase.READY})
    commits = {row.gang: row.commit for row in every if row.commit and row.rank == 0}
    found: dict[int, list[object]] = defaultdict(list)
    for row in every:
        found[row.host].append((row.id, row.wanted, row.gang in ready, commits.get(row.gang, "")))
    return {host: tuple(each) for host, each in found.items()}


def placed(live: Iterable[Seat]) -> dict[int, frozenset[uuid.UUID]]:
    """Return by host the instances of which it was said that they are there."""
    found: dict[int, set[uuid.UUID]] = defaultdict(set)
    for row in live:
        if row.phase != Instance.Phase.PENDING:
            found[row.host].add(row.id)
    return {host: frozenset(ids) for host, ids in found.items()}


def heard(hosts: Sequence[int], now: datetime) -> None:
    """Note that these hosts were heard, in one statement: their reports said nothing new."""
    Host.objects.filter(pk__in=hosts, lost_since=None).update(last_seen_at=now)


def close(host: Host, sentence: str) -> None:
    """Let a host take no starts, or say anew why: its cluster keeps tasks from it. Blank: it takes them again.

    What operators said of the host stands.
    """
    state, ours = State(host.state), _ours(host)
    if sentence and state == State.READY:
        _move(host, State.CORDONED, sentence)
    elif sentence and state == State.CORDONED and ours not in {"", sentence}:
        Host.objects.filter(pk=host.pk, state=state).update(state_args={"node": sentence})
    elif not sentence and state == State.CORDONED and ours:
        _move(host, State.READY)


def remove(host: Host) -> None:
    """Note that the host's node is no more: what runs there ends as lost."""
    if host.state != State.REMOVED:
        _move(host, State.REMOVED, GONE_NODE)


def restore(host: Host) -> None:
    """Note that a node is back that was gone; one that operators removed stays so."""
    if host.state == State.REMOVED and _ours(host):
        _move(host, State.READY)


def _move(host: Host, new: State, sentence: str = "") -> None:
    """Move a host that is still as it was read, and have it so; else it is looked at again with the next round."""
    args = {"node": sentence} if sentence else None
    if host_moves.move(host.pk, State(host.state), new, args=args):
        host.state, host.state_args = new, args


def _ours(host: Host) -> str:
    return str((host.state_args or {}).get("node", ""))
