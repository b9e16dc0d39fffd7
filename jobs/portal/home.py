"""The first page: free cards, one's own open tasks, and templates to start from."""

from dataclasses import dataclass
from itertools import groupby

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from cluster import inventory
from cluster.inventory import FreeCards
from jobs import use
from jobs.models import Task, Template
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.portal.rows import Row, rows
from jobs.states import TERMINAL
from quotas import access

MINE_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCards:
    """The free cards of one region, type by type."""

    name: str
    types: list[FreeCards]


@page
def home(request: PortalRequest) -> HttpResponse:
    """Show free cards, live and each minute; ?part= asks for one fragment."""
    part = request.GET.get("part", "") if wants_fragment(request) else ""
    if part == "mine":
        return render(request, "home.html#mine", {"mine": open_tasks(request)})
    if part == "cards":
        return render(request, "home.html#cards", {"regions": free_by_region()})
    context = {"regions": free_by_region(), "mine": open_tasks(request), "templates": templates(request)}
    return render(request, "home.html", context)


def free_by_region() -> list[RegionCards]:
    """Return the free cards, region by region in the order of their names."""
    found = inventory.free_cards(timezone.now(), use.held_cards())  # in the order of region and type
    return [
        RegionCards(name=name, types=list(types)) for name, types in groupby(found, lambda free: free.region)
    ]


def open_tasks(request: PortalRequest) -> list[Row]:
    """Return the newest of the user's own tasks that have not ended."""
    mine = Task.objects.visible_to(request.user).filter(user=request.user).exclude(state__in=TERMINAL)
    return rows(mine.order_by("-pk")[:MINE_SHOWN])


def templates(request: PortalRequest) -> list[Template]:
    """Return the templates that are offered to the user: those for all, and those of his businesses."""
    mine = Q(business__in=access.businesses_of(request.user)) | Q(business__isnull=True)
    return list(Template.objects.filter(mine))
