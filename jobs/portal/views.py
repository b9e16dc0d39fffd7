"""Views of the list of tasks: those that everybody has, and filters that somebody named."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from jobs import kept_views
from jobs.models import SavedView
from jobs.portal.doors import PortalRequest, page

FOR_ALL: dict[str, Promise] = {
    "": _("All"),
    "state=open&user=me": _("My open"),
    "state=waiting&sort=waiting_longest": _("Waiting"),
    "state=running": _("Running"),
    "state=failed&ended_from=today&sort=ended_last": _("Failed today"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One view: its name, the address's part for it, and whether it is shown now."""

    name: str | Promise
    query: str
    active: bool
    saved: int | None = None  # the id of a view of one's own


def tabs(request: PortalRequest) -> list[Tab]:
    """Return all views that the user may choose from; one query."""
    shown = kept_views.plain(request.GET)
    offered = [
        Tab(name=name, query=query, active=kept_views.plain(QueryDict(query)) == shown)
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
    query = kept_views.plain(QueryDict(request.POST.get("query", "")))
    if fault := kept_views.fault(request.user, name, query):
        messages.error(request, fault.message)
    else:
        kept_views.keep(request.user, name, query)
        messages.success(request, _t("The view “%(name)s” is saved.") % {"name": name})
    return redirect(f"{reverse('tasks')}?{query}")


@page
@require_POST
def remove(request: PortalRequest, pk: int) -> HttpResponse:
    """Remove a view of one's own; the filters stay as they are."""
    view = get_object_or_404(SavedView, pk=pk, user=request.user)
    kept_views.remove(request.user, view)
    messages.success(request, _t("The view “%(name)s” is removed.") % {"name": view.name})
    return redirect(f"{reverse('tasks')}?{view.query}")
