"""The page of all hosts: a map of their cards, how their free cards are spread, and the same as a table."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.http import require_safe

from cluster.models import Host
from jobs.engine import card_map
from jobs.engine.card_map import Block
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.portal.free_cards import Bar, bars
from quotas import access

PAGE = 50  # rows of the table
IN_USE = "u"  # for those who may not know by whom
HIDDEN = str.maketrans({card_map.HIGH: IN_USE, card_map.ELASTIC: IN_USE})
USES: dict[str, Promise] = {
    card_map.FREE: _("free"),
    card_map.HIGH: pgettext_lazy("class", "high"),
    card_map.ELASTIC: pgettext_lazy("class", "elastic"),
    IN_USE: _("in use"),
    card_map.HELD: _("held for a task"),
    card_map.RESERVED: _("reserved"),
    card_map.BROKEN: _("broken"),
    card_map.OUTSIDE: _("used from outside"),
    card_map.AWAY: _("host takes no tasks"),
}
STATES: dict[str, Promise | str] = {
    **{value: word for value, word in Host.State.choices if value != Host.State.REMOVED},
    card_map.LOST: _("lost"),
}
FILTERS = ("q", "region", "gpu_type", "card", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How many cards are used so."""

    letter: str
    word: str | Promise
    cards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How the free cards of a type lie on the hosts of a region."""

    region: str
    gpu_type: str
    hosts: int
    cards: int
    free: int
    largest: int  # on one host
    bars: list[Bar]  # hosts by free cards, from one card on


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One block as a row."""

    block: Block
    state: str | Promise
    uses: list[int]  # cards by use, in the order of the legend


@page
@require_safe
def hosts(request: PortalRequest) -> HttpResponse:
    """Show the hosts that the address asks for; the map is drawn by the browser, the table is one page of it."""
    everything = card_map.current()
    shown = _seen(request, everything.blocks)
    found = _matching(request, shown)
    uses = _uses(request, found)
    rows, below = _cut(request, found)
    context = {
        "at": everything.at,
        "uses": uses,
        "hosts": len({block.host for block in found}),
        "cards": sum(use.cards for use in uses),
        "spreads": _spreads(found),
        "rows": [_row(block, uses) for block in rows],
        "below": below,
        "at_start": "below" not in request.GET,
        "narrows": any(request.GET.get(name, "").strip() for name in FILTERS),
        "given": {name: request.GET.get(name, "").strip() for name in FILTERS},
        "regions": sorted({block.region for block in shown}),
        "types": sorted({block.gpu_type for block in shown}),
        "states": STATES,
        "all_uses": _words(request),
    }
    part = "#figures" if wants_fragment(request) else ""
    return render(request, f"hosts.html{part}", context)


@page
@require_safe
def hosts_map(request: PortalRequest) -> JsonResponse:
    """Give the map to draw: {"groups": [{"region", "type", "hosts": [[id, name, state, cells], …]}, …]}."""
    everything = card_map.current()
    groups: dict[tuple[str, str], list[list[int | str]]] = defaultdict(list)
    for block in _matching(request, _seen(request, everything.blocks)):
        row: list[int | str] = [block.host, block.name, block.state, block.cells]
        groups[block.region, block.gpu_type].append(row)
    found = [{"region": region, "type": name, "hosts": rows} for (region, name), rows in groups.items()]
    return JsonResponse({"at": everything.at.timestamp(), "groups": found})


def _words(request: PortalRequest) -> dict[str, Promise]:
    """Return the uses that the user may tell apart: whose tasks hold the cards of others is not his to know."""
    hidden = {IN_USE} if access.sees_all(request.user) else {card_map.HIGH, card_map.ELASTIC}
    return {letter: word for letter, word in USES.items() if letter not in hidden}


def _seen(request: PortalRequest, blocks: Sequence[Block]) -> list[Block]:
    if access.sees_all(request.user):
        return list(blocks)
    return [
        Block(
            host=block.host,
            name=block.name,
            region=block.region,
            gpu_type=block.gpu_type,
            state=block.state,
            cells=block.cells.translate(HIDDEN),
        )
        for block in blocks
    ]


def _matching(request: PortalRequest, blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks that the address asks for, in the order of the map."""
    given = {name: request.GET.get(name, "").strip() for name in FILTERS}
    text = given["q"].casefold()
    return [
        block
        for block in blocks
        if (not text or text in block.name.casefold())
        and given["region"] in ("", block.region)
        and given["gpu_type"] in ("", block.gpu_type)
        and given["state"] in ("", block.state)
        and set(given["card"]) <= set(block.cells)
    ]


def _uses(request: PortalRequest, blocks: Iterable[Block]) -> list[Use]:
    counts = Counter("".join(block.cells for block in blocks))
    words = _words(request).items()
    return [Use(letter=letter, word=word, cards=counts[letter]) for letter, word in words]


def _spreads(blocks: Iterable[Block]) -> list[Spread]:
    groups: dict[tuple[str, str], list[Block]] = defaultdict(list)
    for block in blocks:
        groups[block.region, block.gpu_type].append(block)
    return [_spread(region, name, those) for (region, name), those in groups.items()]


def _spread(region: str, gpu_type: str, blocks: list[Block]) -> Spread:
    hosts = Counter(block.free for block in blocks)
    largest = max(hosts)
    return Spread(
        region=region,
        gpu_type=gpu_type,
        hosts=len(blocks),
        cards=sum(len(block.cells) for block in blocks),
        free=sum(block.free for block in blocks),
        largest=largest,
        bars=bars([hosts[free] for free in range(largest + 1)]),
    )


def _cut(request: PortalRequest, blocks: list[Block]) -> tuple[list[Block], str]:
    """Return one page of the blocks behind the one that the address names, and the name of its last one."""
    below = request.GET.get("below", "")
    rest = [block for block in blocks if _name(block) > below] if below else blocks
    rest = sorted(rest, key=_name)
    return rest[:PAGE], _name(rest[PAGE - 1]) if len(rest) > PAGE else ""


def _name(block: Block) -> str:
    """Return what the table is sorted by: the host's name, and its number and type, so that no two are the same."""
    return f"{block.name} {block.host} {block.gpu_type}"


def _row(block: Block, uses: Iterable[Use]) -> TableRow:
    counts = [block.cells.count(use.letter) for use in uses]
    return TableRow(block=block, state=STATES.get(block.state, block.state), uses=counts)
