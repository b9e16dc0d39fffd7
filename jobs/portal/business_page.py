"""The page of one business: quota and use, card-hours by day, who uses what, people, templates, reservations."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from cluster import clock, inventory
from cluster.models import Region
from jobs.models import Template
from jobs.portal import business_changes, business_figures, business_hours
from jobs.portal.business_figures import Line
from jobs.portal.doors import PortalRequest, page, wants_fragment
from quotas import access
from quotas.models import Business, DefaultGpuType, Member, Reservation

MEMBERS_SHOWN = 200
SPANS = (7, 30, 90)  # days
SPAN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLine:
    """A line of the quota with the names of its type and region."""

    line: Line
    gpu_type: str
    region: str  # blank: all


@page
@require_safe
def business(request: PortalRequest, pk: int) -> HttpResponse:
    """Show one business; ?days= says how far back, ?part=quota asks for that fragment."""
    found = get_object_or_404(access.businesses_seen_by(request.user), pk=pk)
    context: dict[str, object] = {"business": found, "lines": quota_lines(found)}
    if wants_fragment(request) and request.GET.get("part") == "quota":
        return render(request, "business.html#quota", context)
    days = days_of(request)
    oversees = access.businesses_overseen_by(request.user).filter(pk=pk).exists()
    context |= {
        "days": days,
        "spans": SPANS,
        "hours": business_hours.hours(found, days, None if oversees else request.user.pk),
        "oversees": oversees,
        "members": members(found) if oversees else [],
        "default_types": DefaultGpuType.objects.filter(business=found).values_list(
            "gpu_type__name", flat=True
        ),
        "templates": Template.objects.filter(business=found).select_related("user"),
        "reservations": reservations(found),
        "changes": business_changes.changes(found),
        "may_edit": access.is_operator(request.user),
    }
    return render(request, "business.html", context)


def days_of(request: PortalRequest) -> int:
    """Return for how many days back figures are asked, today among them."""
    given = request.GET.get("days", "")
    return int(given) if given in map(str, SPANS) else SPAN


def quota_lines(found: Business) -> list[NamedLine]:
    """Return a line for each type and, within it, for each region with a quota of its own or with use."""
    types = inventory.type_names()
    regions = dict(Region.objects.values_list("pk", "name"))
    named = [
        NamedLine(
            line=line, gpu_type=types[line.gpu_type], region=regions[line.region] if line.region else ""
        )
        for line in business_figures.lines([found.pk])
    ]
    return sorted(named, key=lambda one: (one.gpu_type, one.region))


def members(found: Business) -> Iterable[Member]:
    """Return who belongs to the business, leads first."""
    rows = Member.objects.filter(business=found).select_related("user")
    return rows.order_by("role", "user__username")[:MEMBERS_SHOWN]


def reservations(found: Business) -> Iterable[Reservation]:
    """Return what is reserved for the business now or later."""
    over = Q(kind=Reservation.Kind.ONCE, ends_at__lte=clock.now())
    rows = Reservation.objects.filter(business=found).exclude(over)
    return rows.select_related("gpu_type", "region").order_by("kind", "starts_at", "pk")
