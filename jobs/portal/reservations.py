"""Reservations as a calendar, a week at a time, in the time zone of whoever looks."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo, available_timezones

from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from cluster import clock
from cluster.models import Card, Host
from jobs.portal.doors import PortalRequest, oversee, page
from jobs.portal.reservation_week import DAYS, Place, Week, grounds, windows_of
from quotas import access
from quotas.models import Reservation

REMEMBERED = "zone"  # in the session
FIRST_YEAR, LAST_YEAR = 1971, 2999


@page
@require_safe
def reservations(request: PortalRequest) -> HttpResponse:
    """Show a week of reservations and their conflicts; a zone that was chosen is remembered."""
    oversee(request)
    zone, fault = _zone(request)
    with timezone.override(zone):
        today = timezone.localdate(clock.now())
        week = Week.of(_day(request, today), zone)
        return render(request, "reservations.html", _shown(request, week, today, fault))


def _shown(request: PortalRequest, week: Week, today: date, fault: str) -> dict[str, object]:
    rows = list(Reservation.objects.select_related("business", "gpu_type", "region").order_by("pk"))
    types = sorted({row.gpu_type.name for row in rows})
    chosen = request.GET.get("gpu_type", "")
    if chosen in types:
        rows = [row for row in rows if row.gpu_type.name == chosen]
    found = grounds(rows, _there(), week)
    return {
        "week": week,
        "days": [week.monday + timedelta(days=number) for number in range(DAYS)],
        "today": today,
        "before": week.monday - timedelta(days=DAYS),
        "after": week.monday + timedelta(days=DAYS),
        "last_day": week.monday + timedelta(days=DAYS - 1),
        "edges": [100 * number for number in range(1, DAYS)],
        "zone": week.zone.key,
        "zones": sorted(available_timezones()),
        "fault": fault,
        "types": types,
        "chosen": chosen,
        "grounds": found,
        "conflicts": [(ground, span) for ground in found for span in ground.conflicts],
        "windows": windows_of(rows, week),
        "may_change": access.is_operator(request.user),
    }


def _zone(request: PortalRequest) -> tuple[ZoneInfo, str]:
    """Return the zone to show times in, and what was wrong with the one that was asked for."""
    given = request.GET.get("zone", "").strip()
    known = available_timezones()
    if given in known:
        request.session[REMEMBERED] = given
    kept = request.session.get(REMEMBERED)
    fault = (
        _("There is no such time zone; write one like Asia/Shanghai.") if given and given not in known else ""
    )
    return ZoneInfo(kept if kept in known else timezone.get_default_timezone_name()), fault


def _day(request: PortalRequest, today: date) -> date:
    """Return the day that the address names; one that means nothing is today."""
    try:
        found = date.fromisoformat(request.GET.get("week", ""))
    except ValueError:
        return today
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else today


def _there() -> dict[Place, int]:
    """Return how many cards there are of each type, in all regions and in each; one query."""
    cards = Card.objects.exclude(state__in=(Card.State.MISSING, Card.State.BROKEN))
    rows = cards.exclude(host__state=Host.State.REMOVED).order_by().values("gpu_type_id", "host__region_id")
    found: dict[Place, int] = {}
    for gpu_type, region, number in rows.annotate(number=Count("pk")).values_list(
        "gpu_type_id", "host__region_id", "number"
    ):
        found[gpu_type, region] = number
        found[gpu_type, None] = found.get((gpu_type, None), 0) + number
    return found
