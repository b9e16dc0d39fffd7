"""The list of tasks: filters, order and page live in its address."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from jobs import filter_words, kept_views, pages
from jobs.filters import Filters
from jobs.portal import bulk, filter_labels, known, views
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.portal.filter_form import FilterForm
from jobs.portal.rows import Row, rows_of
from jobs.values import Fault

PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of rows, and the keys of its neighbours."""

    rows: list[Row]
    above: str | None
    below: str | None
    cut_short: int  # see jobs/pages.py


@page
@require_safe
def tasks(request: PortalRequest) -> HttpResponse:
    """Show the tasks that the user may see; htmx gets the list, or the list and its filters, alone."""
    filters, faults = filter_words.read(request.GET, request.user)
    query = kept_views.plain(request.GET)
    context = {
        "page": cut(request, filters),
        "query": query,
        "narrows": bool(query),
        "at_start": not {"above", "below"} & set(request.GET),
    }
    part = request.htmx.target if wants_fragment(request) else None
    if part == "list":
        return render(request, "tasks.html#list", context)
    context |= _around(request, faults)
    response = render(request, "tasks.html#tasks" if part == "tasks" else "tasks.html", context)
    if part == "tasks":
        response["HX-Push-Url"] = f"{reverse('tasks')}?{query}" if query else reverse("tasks")
    return response


def _around(request: PortalRequest, faults: list[Fault]) -> dict[str, object]:
    """Return what stands around the list."""
    return {
        "filters": FilterForm(request),
        "faults": [filter_labels.said(fault) for fault in faults],
        "tabs": views.tabs(request),
        "verbs": bulk.BUTTONS,
    }


def cut(request: PortalRequest, filters: Filters) -> Page:
    """Return the page that the address asks for; a key that means nothing is the first page's."""
    above = pages.key(request.GET.get("above", ""), filters.order)
    below = pages.key(request.GET.get("below", ""), filters.order) if above is None else None
    together = known.of(request)
    found = pages.cut(filters, above=above, below=below, size=PAGE, edges=together.edges)
    rows = rows_of(found.ids, together.rows)
    return Page(rows=rows, above=found.above, below=found.below, cut_short=found.cut_short)
