"""What a business used, over HTTP: card-hours by day and class, of the same attempts as its file."""

from collections import defaultdict
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Count, F, FloatField, Sum
from django.db.models.functions import Cast, TruncDate
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import clock
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.files import DAYS, MOST_DAYS
from jobs.config import Fault, Invalid
from jobs.models import TaskClass
from jobs.usage_file import HOUR_S
from quotas import access
from quotas.models import Business, UsageRow

DIGITS = 4  # of card-hours, as in the file


class Usage(APIView):
    """The card-hours of a business by day."""

    @described(
        operation_id="businesses_usage_days",
        parameters=queries.USAGE_DAYS_QUERY,
        responses=shapes.answers(200, shapes.page_of(shapes.USAGE_DAY)),
    )
    def get(self, request: Request, pk: int) -> Response:
        """List each of the last `days`, today among them: what the attempts used that ended on it, by class.

        The oldest day comes first. An attempt counts whole on the day of its end, as in the file.
        """
        business = get_object_or_404(access.businesses_seen_by(request.user), pk=pk)
        today = timezone.localdate(clock.now())
        first = today - timedelta(days=asking.number(request, "days", DAYS, 1, MOST_DAYS) - 1)
        limit = asking.number(request, "limit", asking.PAGE, 1, asking.LONGEST_PAGE)
        begin = min(max(first, _cursor(request) or first), today + timedelta(days=1))
        last = min(today, begin + timedelta(days=limit - 1))
        following = asking.following(request, str(last + timedelta(days=1))) if last < today else None
        return Response({"results": _days(business, begin, last), "next": following})


def _cursor(request: Request) -> date | None:
    """Return the day that a page begins with; raises Invalid."""
    given = asking.text(request, "cursor")
    if not given:
        return None
    try:
        found = date.fromisoformat(given)
    except ValueError:
        found = date.min
    if not asking.YEARS[0] <= found.year <= asking.YEARS[1]:
        raise Invalid([Fault("cursor", "cursor", _("Take it from `next`."))])
    return found


def _days(business: Business, begin: date, last: date) -> list[dict[str, Any]]:
    """Return each day from `begin` to `last`; one query."""
    zone = timezone.get_default_timezone()
    ends = [datetime.combine(day, time.min, zone) for day in (begin, last + timedelta(days=1))]
    rows = UsageRow.objects.filter(business=business, ended_at__gte=ends[0], ended_at__lt=ends[1])
    card_s = Sum(Cast("cards", FloatField()) * F("seconds"))
    by_day = rows.order_by().values_list(TruncDate("ended_at", tzinfo=zone), "task_class")
    used: dict[date, dict[str, tuple[float, int]]] = defaultdict(dict)
    for day, task_class, seconds, attempts in by_day.annotate(card_s=card_s, attempts=Count("id")):
        used[day][task_class] = (seconds, attempts)
    days = (begin + timedelta(days=number) for number in range((last - begin).days + 1))
    return [_day(day, used[day]) for day in days]


def _day(day: date, used: dict[str, tuple[float, int]]) -> dict[str, Any]:
    shown: dict[str, Any] = {"day": day.isoformat()}
    for task_class in (TaskClass.HIGH, TaskClass.ELASTIC):
        seconds, attempts = used.get(task_class, (0.0, 0))
        shown[task_class.value] = {"card_hours": round(seconds / HOUR_S, DIGITS), "attempts": attempts}
    return shown
