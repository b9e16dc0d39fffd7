"""The list of businesses, side by side: who waits for cards or quota, who runs on what others leave idle."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from cluster.models import GpuType
from jobs.portal import business_figures
from jobs.portal.business_figures import Line
from jobs.portal.doors import PortalRequest, page, wants_fragment
from quotas import access

PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One business in the list; cards of all chosen types together."""

    id: int
    flag: str
    name: str
    limit: int
    high: int
    elastic: int
    over: int
    for_cards: int
    for_quota: int
    for_elastic: int
    short: list[str]  # types of which cards are waited for though quota is left

    @property
    def starved(self) -> bool:
        """Say whether high tasks of it wait, for cards or for quota."""
        return bool(self.for_cards or self.for_quota)

    @property
    def borrowing(self) -> bool:
        """Say whether it holds cards that no quota of its own covers."""
        return bool(self.elastic or self.over)

    @property
    def share(self) -> int:
        """Return how much of its quota is in use; percent, 100 at most."""
        return min(100, round(100 * self.high / self.limit)) if self.limit else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One choice of which businesses to show."""

    name: str
    label: Promise
    number: int
    active: bool


SHOWS: dict[str, tuple[Promise, Callable[[Summary], bool]]] = {
    "": (_("All"), lambda _summary: True),
    "starved": (_("Starved"), lambda summary: summary.starved),
    "borrowing": (_("Borrowing"), lambda summary: summary.borrowing),
}


@page
@require_safe
def businesses(request: PortalRequest) -> HttpResponse:
    """Show the businesses that the user may see; ?show=, ?gpu_type= and ?q= narrow the list."""
    types = dict(GpuType.objects.values_list("name", "pk"))
    kind = request.GET.get("gpu_type", "")
    sought = request.GET.get("q", "").strip()
    show = request.GET.get("show", "")
    found = summaries(request, types, kind if kind in types else "", sought)
    chosen = [one for one in found if SHOWS.get(show, SHOWS[""])[1](one)]
    context = {
        "page": _cut(request, chosen),
        "tabs": _tabs(found, show),
        "types": sorted(types),
        "kind": kind,
        "sought": sought,
        "show": show,
        "any": bool(found),
    }
    return render(request, "businesses.html#list" if wants_fragment(request) else "businesses.html", context)


def summaries(request: PortalRequest, types: dict[str, int], kind: str, sought: str) -> list[Summary]:
    """Return the businesses that match, those first that wait for most; five queries."""
    seen = access.businesses_seen_by(request.user).order_by("flag").values_list("pk", "flag", "name")
    mine = [row for row in seen if sought.casefold() in f"{row[1]} {row[2]}".casefold()]
    names = {pk: name for name, pk in types.items()}
    lines: dict[int, list[Line]] = defaultdict(list)
    for line in business_figures.lines([pk for pk, _flag, _name in mine]):
        if line.region is None and kind in {"", names[line.gpu_type]}:
            lines[line.business].append(line)
    found = [_summary(pk, flag, name, lines[pk], names) for pk, flag, name in mine]
    return sorted(found, key=lambda one: (-one.for_cards, -one.for_quota, one.flag))


def _summary(pk: int, flag: str, name: str, lines: Iterable[Line], names: dict[int, str]) -> Summary:
    lines = list(lines)
    return Summary(
        id=pk,
        flag=flag,
        name=name,
        limit=sum(line.limit or 0 for line in lines),
        high=sum(line.high for line in lines),
        elastic=sum(line.elastic for line in lines),
        over=sum(line.over for line in lines),
        for_cards=sum(line.for_cards for line in lines),
        for_quota=sum(line.for_quota for line in lines),
        for_elastic=sum(line.for_elastic for line in lines),
        short=sorted(names[line.gpu_type] for line in lines if line.for_cards),
    )


def _tabs(found: list[Summary], show: str) -> list[Tab]:
    return [
        Tab(
            name=name,
            label=label,
            number=sum(map(fits, found)),
            active=name == (show if show in SHOWS else ""),
        )
        for name, (label, fits) in SHOWS.items()
    ]


def _cut(request: PortalRequest, chosen: list[Summary]) -> Page[Summary]:
    return Paginator(chosen, PAGE).get_page(request.GET.get("page"))
