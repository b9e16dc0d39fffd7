"""The page of the scheduler: when it last looked, what waits and why, and what its passes did in the last day."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from jobs.engine import pass_log, pulse
from jobs.portal import queue_figures
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.portal.words import CLASSES
from quotas import access

# Minutes of one point: of what was started and evicted, and of the time that passes took.
HOUR_MIN, FINER_MIN = 60, 15
DAY_MIN = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What passes did in the last 24 hours."""

    hours: list[pass_log.Span]
    finer: list[pass_log.Span]
    starts: int
    evictions: int
    passes: int


@page
def scheduler_page(request: PortalRequest) -> HttpResponse:
    """Show the figures; a member sees those of his businesses' queue, who sees all the passes' as well."""
    context = {
        "queue": queue_figures.read(request.user),
        "classes": CLASSES.values(),
        "last": pulse.look(),
        "day": _day() if access.sees_all(request.user) else None,
    }
    part = "#figures" if wants_fragment(request) else ""
    return render(request, f"scheduler.html{part}", context)


@page
@require_safe
def banner(request: PortalRequest) -> HttpResponse:
    """Return what says that it is late, empty where all is well: each page asks for it once a minute."""
    return render(request, "includes/pulse.html")


def _day() -> Day:
    now = timezone.now()
    hours = pass_log.spans(now, HOUR_MIN, DAY_MIN // HOUR_MIN)
    return Day(
        hours=hours,
        finer=pass_log.spans(now, FINER_MIN, DAY_MIN // FINER_MIN),
        starts=sum(hour.starts for hour in hours),
        evictions=sum(hour.evictions for hour in hours),
        passes=sum(hour.passes for hour in hours),
    )
