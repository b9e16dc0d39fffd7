"""The first page: free cards, one's own open tasks, and templates to start from."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.models import Task, Template
from jobs.portal import free_cards, newcomers
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.portal.rows import Row, rows
from jobs.states import TERMINAL

MINE_SHOWN = 8


@page
@require_safe
def home(request: PortalRequest) -> HttpResponse:
    """Show free cards, live and each minute; ?part= asks for one fragment."""
    part = request.GET.get("part", "") if wants_fragment(request) else ""
    if part == "mine":
        return render(request, "home.html#mine", {"mine": open_tasks(request)})
    if part == "cards":
        return render(request, "home.html#cards", {"regions": tiles(request)})
    context = {
        "regions": tiles(request),
        "mine": open_tasks(request),
        "templates": Template.objects.visible_to(request.user),
        "newcomer": newcomers.of(request.user),
    }
    return render(request, "home.html", context)


def tiles(request: PortalRequest) -> list[free_cards.RegionTiles]:
    """Return what is free, as the user may see it."""
    return free_cards.by_region(free_cards.kind_of(request.user))


def open_tasks(request: PortalRequest) -> list[Row]:
    """Return the newest of the user's own tasks that have not ended."""
    mine = Task.objects.visible_to(request.user).filter(user=request.user).exclude(state__in=TERMINAL)
    return rows(mine.order_by("-pk")[:MINE_SHOWN])
