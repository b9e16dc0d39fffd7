"""The page of the scheduler: when it last looked, what waits and why, and what its passes did in the last day."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from cluster import clock
from jobs.engine import pass_log, pulse
from jobs.portal import queue_figures
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.portal.plots import Column, Plot, Row
from jobs.portal.words import CLASSES
from quotas import access

# Minutes of one point: of what was started and evicted, and of the time that passes took.
HOUR_MIN, FINER_MIN = 60, 15
DAY_MIN = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What passes did in the last 24 hours."""

    rates: Plot  # of starts and evictions
    times: Plot  # that passes took
    starts: int
    evictions: int
    passes: int


@page
@require_safe
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
    now = clock.now()
    hours = pass_log.spans(now, HOUR_MIN, DAY_MIN // HOUR_MIN)
    return Day(
        rates=_rates(hours),
        times=_times(pass_log.spans(now, FINER_MIN, DAY_MIN // FINER_MIN)),
        starts=sum(hour.starts for hour in hours),
        evictions=sum(hour.evictions for hour in hours),
        passes=sum(hour.passes for hour in hours),
    )


def _rates(hours: list[pass_log.Span]) -> Plot:
    return Plot(
        label=_("Starts and evictions per hour"),
        head=_("Hour"),
        columns=[Column(word=_("starts"), line=1), Column(word=_("evictions"), line=2)],
        rows=[_row(hour, [(str(hour.starts), None), (str(hour.evictions), None)]) for hour in hours],
        kind="bars",
    )


def _times(spans: list[pass_log.Span]) -> Plot:
    columns = [
        Column(word=_("passes")),
        Column(word=_("on average (ms)"), line=1),
        Column(word=_("the longest (ms)"), line=2),
    ]
    cells = [[(str(span.passes), None), _ms(span.mean_ms), _ms(span.longest_ms)] for span in spans]
    return Plot(
        label=_("Time of a pass that planned"),
        head=_("Quarter of an hour"),
        columns=columns,
        rows=[_row(span, line) for span, line in zip(spans, cells, strict=True)],
        unit="ms",
    )


def _row(span: pass_log.Span, cells: list[tuple[str, float | None]]) -> Row:
    said = date_format(timezone.localtime(span.at), "Y-m-d H:i")
    return Row(at=int(span.at.timestamp()), said=said, cells=cells)


def _ms(time: float | None) -> tuple[str, float | None]:
    return ("–" if time is None else f"{time:.0f}", time)
