"""Views of the list of tasks: those that everybody has, and filters that somebody named."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from jobs import filter_words
from jobs.filters import NEWEST
from jobs.models import SavedView
from jobs.portal.doors import PortalRequest, page
from jobs.values import bad_character

FOR_ALL: dict[str, Promise] = {
    "": _("All"),
    "state=open&user=me": _("My open"),
    "state=waiting&sort=waiting_longest": _("Waiting"),
    "state=running": _("Running"),
    "state=failed&ended_from=today&sort=ended_last": _("Failed today"),
}
MOST = 20  # views of one user
LONGEST_NAME = 40
LONGEST_QUERY = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One view: its name, the address's part for it, and whether it is shown now."""

    name: str | Promise
    query: str
    active: bool
    saved: int | None = None  # the id of a view of one's own


def plain(query: QueryDict) -> str:
    """Return the filters of an address in a fixed order, without blanks, pages and what is no filter."""
    pairs = [
        (name, text)
        for name in filter_words.NAMES
        for given in query.getlist(name)
        if (text := given.strip()) and (name, text) != ("sort", NEWEST)
    ]
    return urlencode(pairs)


def tabs(request: PortalRequest) -> list[Tab]:
    """Return all views that the user may choose from; one query."""
    shown = plain(request.GET)
    offered = [
        Tab(name=name, query=query, active=plain(QueryDict(query)) == shown)
        for query, name in FOR_ALL.items()
    ]
    own = [
        Tab(name=view.name, query=view.query, active=view.query == shown, saved=view.pk)
        for view in SavedView.objects.filter(user=request.user)
    ]
    return [*offered, *own]


@page
@require_POST
def save(request: PortalRequest) -> HttpResponse:
    """Name the filters of an address; a name that is there gets the new ones."""
    name = request.POST.get("name", "").strip()
    query = plain(QueryDict(request.POST.get("query", "")))
    if fault := _fault(request, name, query):
        messages.error(request, fault)
    else:
        SavedView.objects.update_or_create(user=request.user, name=name, defaults={"query": query})
        messages.success(request, _t("The view “%(name)s” is saved.") % {"name": name})
    return redirect(f"{reverse('tasks')}?{query}")


def _fault(request: PortalRequest, name: str, query: str) -> str:
    if not 0 < len(name) <= LONGEST_NAME or bad_character(name, lines=False):
        return _t("Name: write 1 to %(most)d printable characters.") % {"most": LONGEST_NAME}
    if not query or len(query) > LONGEST_QUERY:
        return _t("Filters: set at least one, and fewer words than these; then save the view.")
    others = SavedView.objects.filter(user=request.user).exclude(name=name)
    if others.count() >= MOST:
        return _t("Name: you have %(most)d views; remove one first.") % {"most": MOST}
    return ""


@page
@require_POST
def remove(request: PortalRequest, pk: int) -> HttpResponse:
    """Remove a view of one's own; the filters stay as they are."""
    view = get_object_or_404(SavedView, pk=pk, user=request.user)
    view.delete()
    messages.success(request, _t("The view “%(name)s” is removed.") % {"name": view.name})
    return redirect(f"{reverse('tasks')}?{view.query}")
