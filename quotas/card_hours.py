"""Card-hours of businesses by day: kept sums, what ended since they were made, and what still runs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import QuerySet, Sum
from django.utils import timezone

from quotas.day_use import DayUse, DayUseKept
from quotas.models import UsageRow

# A usage row is committed, and seen by everybody, sooner than this after it was dated.
SETTLED = timedelta(hours=1)
STEP = timedelta(days=1)  # of ends that are summed up in one transaction
KEPT_ROWS = 2000  # rows of sums in one statement
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


class Share(NamedTuple):
    """Who used what of a business on one day."""

    day: date
    gpu_type: int
    task_class: str
    user: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Cards of one type that one user had for a while."""

    gpu_type: int
    task_class: str
    user: int
    cards: int
    begin: datetime
    end: datetime


class OnDay(NamedTuple):
    """What was used on one day, by whomever."""

    day: date
    gpu_type: int
    task_class: str


class ByUser(NamedTuple):
    """Who used it, on whichever day."""

    user: int
    task_class: str


@dataclass(frozen=True, slots=True)
class Use:
    """Card-seconds of a business, added up in both ways that a page shows them."""

    on_days: dict[OnDay, float] = field(default_factory=lambda: defaultdict(float))
    by_users: dict[ByUser, float] = field(default_factory=lambda: defaultdict(float))


def of_business(business: int, first: date, running: Iterable[Span]) -> Use:
    """Return what a business used from the day `first` on; `running`: what has not ended. Four queries."""
    zone = timezone.get_default_timezone()
    kept = DayUseKept.objects.filter(pk=1, zone=str(zone)).first()
    through = kept.through if kept else EARLIEST
    use = _kept(business, first) if kept else Use()
    begin = datetime.combine(first, time.min, zone)
    ended = UsageRow.objects.filter(business=business, ended_at__gt=max(through, begin))
    for span in [*(span for _business, span in _spans(ended)), *running]:
        for day, card_s in _by_day(span, zone):
            if day >= first:
                use.on_days[OnDay(day, span.gpu_type, span.task_class)] += card_s
                use.by_users[ByUser(span.user, span.task_class)] += card_s
    return use


def _kept(business: int, first: date) -> Use:
    """Add up the kept sums where they are: of a large business they are as many as users times days."""
    use = Use()
    rows = DayUse.objects.filter(business=business, day__gte=first)
    days = rows.values_list("day", "gpu_type_id", "task_class").annotate(card_s=Sum("card_s"))
    users = rows.values_list("user_id", "task_class").annotate(card_s=Sum("card_s"))
    use.on_days.update((OnDay(*key), card_s) for *key, card_s in days)
    use.by_users.update((ByUser(*key), card_s) for *key, card_s in users)
    return use


def keep(now: datetime) -> None:
    """Bring the sums up to an hour ago, a day of ends at a time; days of another time zone are summed up anew."""
    zone = timezone.get_default_timezone()
    through = _begin(zone)
    while through is not None and through < now - SETTLED:
        through = _step(through, min(through + STEP, now - SETTLED), zone)


def _begin(zone: tzinfo) -> datetime | None:
    """Return how far the sums go; None where no attempt ever ended."""
    kept = DayUseKept.objects.filter(pk=1).first()
    if kept and kept.zone == str(zone):
        return kept.through
    first = UsageRow.objects.order_by("ended_at").values_list("ended_at", flat=True).first()
    if first is None:
        return None
    through = first - timedelta(seconds=1)
    with transaction.atomic():
        DayUse.objects.all().delete()
        DayUseKept.objects.update_or_create(pk=1, defaults={"through": through, "zone": str(zone)})
    return through


def _step(through: datetime, until: datetime, zone: tzinfo) -> datetime | None:
    """Sum up what ended after `through` until `until`; return that, or None where somebody else did."""
    sums: dict[tuple[int, Share], float] = defaultdict(float)
    rows = UsageRow.objects.filter(ended_at__gt=through, ended_at__lte=until)
    for business, span in _spans(rows):
        for day, card_s in _by_day(span, zone):
            sums[business, Share(day, span.gpu_type, span.task_class, span.user)] += card_s
    with transaction.atomic():
        mine = DayUseKept.objects.filter(pk=1, through=through, zone=str(zone))
        if not mine.update(through=until):
            return None
        _add_up(sums)
    return until


def _add_up(sums: dict[tuple[int, Share], float]) -> None:
    table = connection.ops.quote_name(DayUse._meta.db_table)
    lines = [(business, *share, card_s) for (business, share), card_s in sorted(sums.items())]
    for at in range(0, len(lines), KEPT_ROWS):
        chunk = lines[at : at + KEPT_ROWS]
        marks = ", ".join(["(%s, %s, %s, %s, %s, %s)"] * len(chunk))
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table} (business_id, day, gpu_type_id, task_class, user_id, card_s) VALUES {marks}"
                " ON CONFLICT (business_id, day, gpu_type_id, task_class, user_id)"
                f" DO UPDATE SET card_s = {table}.card_s + excluded.card_s",
                [value for line in chunk for value in line],
            )


def _spans(rows: QuerySet[UsageRow]) -> Iterator[tuple[int, Span]]:
    columns = ("business_id", "gpu_type_id", "task_class", "user_id", "cards", "started_at", "ended_at")
    for business, gpu_type, task_class, user, cards, begin, end in (
        rows.order_by().values_list(*columns).iterator()
    ):
        yield (
            business,
            Span(gpu_type=gpu_type, task_class=task_class, user=user, cards=cards, begin=begin, end=end),
        )


def _by_day(span: Span, zone: tzinfo) -> Iterator[tuple[date, float]]:
    """Divide what was used over the days on which it was, midnights being those of `zone`."""
    begin = span.begin
    while begin < span.end:
        day = begin.astimezone(zone).date()
        midnight = datetime.combine(day + timedelta(days=1), time.min, zone).astimezone(UTC)
        end = min(span.end, midnight)
        yield day, span.cards * (end - begin).total_seconds()
        begin = end
