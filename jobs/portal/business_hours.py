"""Card-hours of a business by day and by user, with what its users hold now."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from cluster import clock, inventory
from jobs.models import Attempt, TaskClass
from quotas import card_hours
from quotas.card_hours import Span, Use
from quotas.models import Business

HOUR_S = 3600
USERS_SHOWN = 100


@dataclass(slots=True)
class ByClass:
    """Card-hours, or cards, by class."""

    high: float = 0.0
    elastic: float = 0.0

    @property
    def total(self) -> float:
        """Return both together."""
        return self.high + self.elastic

    def add(self, task_class: str, number: float) -> None:
        """Count so many more of a class."""
        if task_class == TaskClass.HIGH:
            self.high += number
        else:
            self.elastic += number


@dataclass(slots=True)
class UserUse:
    """What one user holds now (cards) and used in the span (card-hours)."""

    name: str = ""
    now: ByClass = field(default_factory=ByClass)
    hours: ByClass = field(default_factory=ByClass)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """What a business used in a span of days."""

    by_day: list[tuple[date, ByClass]]  # every day of the span
    by_type: list[tuple[str, ByClass]]
    total: ByClass
    users: list[UserUse]
    users_left_out: int


def hours(found: Business, days: int, only_user: int | None) -> Hours:
    """Return the card-hours of the last `days`, today among them; `only_user`: name nobody else. Seven queries."""
    now = clock.now()
    today = timezone.localdate(now)
    first = today - timedelta(days=days - 1)
    running = _running(found, now)
    use = card_hours.of_business(found.pk, first, running)
    by_day = {first + timedelta(days=number): ByClass() for number in range(days)}
    types: dict[int, ByClass] = defaultdict(ByClass)
    total = ByClass()
    for share, card_s in use.on_days.items():
        for one in (by_day.get(share.day), types[share.gpu_type], total):
            if one is not None:
                one.add(share.task_class, card_s / HOUR_S)
    names = inventory.type_names()
    users = _users(use, running, only_user)
    return Hours(
        by_day=list(by_day.items()),
        by_type=sorted((names[pk], used) for pk, used in types.items()),
        total=total,
        users=users[:USERS_SHOWN],
        users_left_out=max(0, len(users) - USERS_SHOWN),
    )


def _running(found: Business, now: datetime) -> list[Span]:
    """Return what open attempts held until now."""
    rows = Attempt.objects.filter(ended_at=None, task__business=found)
    columns = ("gpu_type_id", "task_class", "task__user_id", "cards", "created_at")
    return [
        Span(gpu_type=kind, task_class=task_class, user=user, cards=cards, begin=begin, end=now)
        for kind, task_class, user, cards, begin in rows.values_list(*columns)
    ]


def _users(use: Use, running: Iterable[Span], only_user: int | None) -> list[UserUse]:
    """Return who used or holds anything, those first who used most."""
    found: dict[int, UserUse] = defaultdict(UserUse)
    for share, card_s in use.by_users.items():
        found[share.user].hours.add(share.task_class, card_s / HOUR_S)
    for span in running:
        found[span.user].now.add(span.task_class, span.cards)
    if only_user is not None:
        found = defaultdict(UserUse, {only_user: found[only_user]})
    for pk, name in User.objects.filter(pk__in=list(found)).values_list("pk", "username"):
        found[pk].name = name
    return sorted(found.values(), key=lambda use: (-use.hours.total, -use.now.total, use.name))
