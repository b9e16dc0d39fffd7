"""What else a document could ask that would start: found by dry runs, of which there are few."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from django.contrib.auth.models import User
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from cluster.models import Region
from jobs import config, use
from jobs.engine import ask
from jobs.engine.rehearsal import Rehearsal
from jobs.engine.verdict import Alternative, Change, Kind, Verdict
from jobs.scheduling import types

MOST_TRIED, MOST_SHOWN = 8, 4
TRY_S = 0.5  # no dry run is begun later than this
MOST_TYPES, MOST_REGIONS = 3, 2  # others that are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What could be asked instead."""

    kind: Kind
    change: Change
    message: str
    asked: types.Waiting


def find(
    known: Rehearsal, asked: types.Waiting, verdict: Verdict, user: User, document: Mapping[str, Any]
) -> tuple[Alternative, ...]:
    """Return the alternatives that start, without evicting where the document itself starts with, the best first."""
    until = time.monotonic() + TRY_S
    found: list[Alternative] = []
    for number, candidate in enumerate(_candidates(known, asked)):
        if number == MOST_TRIED or time.monotonic() > until:
            break
        alternative = _try(known, candidate, user)
        if alternative is None or (verdict.evicts and alternative.victims):
            continue
        if _is_good(document, candidate.change, user):
            found.append(alternative)
    found.sort(key=lambda one: (one.victims > 0, one.lost_card_hours))  # stable: else in the order tried
    return tuple(found[:MOST_SHOWN])


def _try(known: Rehearsal, candidate: Candidate, user: User) -> Alternative | None:
    outcome = known.outcome(candidate.asked)
    where = ask.where_of(known, outcome)
    if where is None or not (outcome.start or outcome.evictions):
        return None
    evicts = ask.victims(known, outcome, user)
    return Alternative(
        kind=candidate.kind,
        change=candidate.change,
        message=candidate.message,
        verdict="starts_after_evicting" if evicts else "starts",
        where=where,
        victims=len(evicts),
        lost_card_hours=sum(victim.lost_card_hours for victim in evicts),
    )


def _is_good(document: Mapping[str, Any], change: Change, user: User) -> bool:
    """Say whether the document with the change would be taken."""
    changed = {name: value for name, value in {**document, **change}.items() if value is not None}
    try:
        config.read(changed, user=user)
    except config.Invalid:
        return False
    return True


def _candidates(known: Rehearsal, asked: types.Waiting) -> Iterator[Candidate]:
    """Give what is worth a dry run: where hosts have cards enough, what changes least first."""
    blocks = Blocks(known, asked.needs)
    if asked.wanted == "high":
        yield _as_class(asked, "elastic", True, _("as an elastic task, which may be evicted"))
    elif asked.wanted == "elastic":
        yield _as_class(asked, "high", False, _("as a high task, on the quota of the business"))
    yield from _elsewhere(known, asked, blocks)
    yield from _smaller(asked, blocks)


def _as_class(asked: types.Waiting, wanted: types.TaskClass, value: bool, message: str) -> Candidate:
    return Candidate(
        kind="class",
        change={"is_elasticity": value},
        message=message,
        asked=replace(asked, wanted=wanted),
    )


def _elsewhere(known: Rehearsal, asked: types.Waiting, blocks: "Blocks") -> Iterator[Candidate]:
    """Give other types and other regions: those with the most room first."""
    names = known.snapshot.type_names
    others = {t: blocks.hosts_with(t, asked.region, asked) for t in names if t not in asked.gpu_types}
    for gpu_type in _roomiest(others, MOST_TYPES):
        name = names[gpu_type]
        yield Candidate(
            kind="gpu_type",
            change={"GPUName": name},
            message=_("on %(type)s") % {"type": name},
            asked=replace(asked, gpu_types=(gpu_type,)),
        )
    if asked.region is None:
        return
    regions = dict(Region.objects.exclude(pk=asked.region).values_list("pk", "name"))
    found = {r: max(blocks.hosts_with(t, r, asked) for t in asked.gpu_types) for r in regions}
    for region in _roomiest(found, MOST_REGIONS):
        yield Candidate(
            kind="region",
            change={"region": regions[region]},
            message=_("in region %(region)s") % {"region": regions[region]},
            asked=replace(asked, region=region),
        )


def _roomiest(room: Mapping[int, int], most: int) -> list[int]:
    """Return those with any room, the most of it first; ties by id."""
    ordered = sorted((-hosts, key) for key, hosts in room.items() if hosts)
    return [key for _hosts, key in ordered[:most]]


def _smaller(asked: types.Waiting, blocks: "Blocks") -> Iterator[Candidate]:
    """Give fewer hosts, then fewer cards on each: as many as are free, or as the quota still allows."""
    left = _quota_left(asked)
    hosts = {blocks.most_hosts(asked), left // asked.host_gpu_num}
    for host_num in sorted((n for n in hosts if 0 < n < asked.host_num), reverse=True):
        yield Candidate(
            kind="fewer_hosts",
            change={"host_num": host_num},
            message=ngettext("on %(n)d host", "on %(n)d hosts", host_num) % {"n": host_num},
            asked=replace(asked, host_num=host_num),
        )
    cards = {blocks.most_cards(asked), left // asked.host_num}
    for number in sorted((n for n in cards if 0 < n < asked.host_gpu_num), reverse=True):
        yield Candidate(
            kind="fewer_cards",
            change={"host_gpu_num": number},
            message=ngettext("with %(n)d card on each host", "with %(n)d cards on each host", number)
            % {"n": number},
            asked=replace(asked, host_gpu_num=number),
        )


def _quota_left(asked: types.Waiting) -> int:
    """Return the cards that a high task may still take of some type; 0 for one that no quota binds."""
    if asked.wanted != "high":
        return 0
    ledger = use.ledger([asked.business])
    return max(ledger.high_caps(asked.business, t).left(asked.region) for t in asked.gpu_types)


class Blocks:
    """The free cards of each host in use, by type and region."""

    def __init__(self, known: Rehearsal, needs: str) -> None:
        """Look at the hosts that can run such a task."""
        self._free: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row in known.snapshot.hosts:
            if row.state == "ready" and needs in row.offers:
                self._free[row.gpu_type][row.region].append(len(row.free_numbers))

    def hosts_with(self, gpu_type: int, region: int | None, asked: types.Waiting) -> int:
        """Return how many hosts have free what is asked on each; 0 where they are too few."""
        found = sum(number >= asked.host_gpu_num for number in self._in(gpu_type, region))
        return found if found >= asked.host_num else 0

    def most_hosts(self, asked: types.Waiting) -> int:
        """Return the most hosts of a type that have free what is asked on each."""
        rows = (self._in(gpu_type, asked.region) for gpu_type in asked.gpu_types)
        return max((sum(number >= asked.host_gpu_num for number in row) for row in rows), default=0)

    def most_cards(self, asked: types.Waiting) -> int:
        """Return the most cards that are free on each of as many hosts as are asked."""
        rows = (sorted(self._in(gpu_type, asked.region), reverse=True) for gpu_type in asked.gpu_types)
        return max((row[asked.host_num - 1] for row in rows if len(row) >= asked.host_num), default=0)

    def _in(self, gpu_type: int, region: int | None) -> list[int]:
        regions = self._free.get(gpu_type, {})
        return list(chain.from_iterable(regions.values())) if region is None else regions.get(region, [])
