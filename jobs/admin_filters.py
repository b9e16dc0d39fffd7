"""Filters of the admin's lists of tasks and attempts, each over rows that an index leads to."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from jobs.models import Attempt, Task, TaskClass
from jobs.states import TERMINAL


class OpenByClass(admin.SimpleListFilter):
    """Tasks of a class that are not over: few, however many there ever were."""

    title = _("class, of those not over")
    parameter_name = "open"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the classes."""
        return list(TaskClass.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Task]) -> QuerySet[Task]:
        """Return those of the class that was chosen."""
        if not self.value():
            return queryset
        return queryset.exclude(state__in=sorted(TERMINAL)).filter(wanted_class=self.value())


class OpenOrEvicted(admin.SimpleListFilter):
    """Attempts that go on, or that were evicted."""

    title = _("state")
    parameter_name = "is"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return both."""
        return [("open", _("not ended")), ("evicted", Attempt.Outcome.EVICTED.label)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Attempt]) -> QuerySet[Attempt]:
        """Return those that were chosen."""
        if self.value() == "open":
            return queryset.filter(ended_at=None)
        return queryset.filter(outcome=Attempt.Outcome.EVICTED) if self.value() == "evicted" else queryset
