"""The list of tasks: filters live in the address, pages are cut by id."""

from dataclasses import dataclass

from django import forms
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _

from jobs.models import Task, TaskQuerySet
from jobs.portal import words
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.portal.rows import Row, rows
from jobs.states import TERMINAL, State
from quotas import access
from quotas.models import Business

PAGE = 50
OPEN, OVER = "open", "over"


class Filters(forms.Form):
    """What the list is narrowed to; a value that means nothing narrows nothing."""

    q = forms.CharField(label=_("Name or number"), required=False)
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[
            ("", _("any state")),
            (OPEN, _("not over")),
            (OVER, _("over")),
            *((state.value, words.STATES[state]) for state in State),
        ],
    )
    kind = forms.ChoiceField(
        label=_("Class"), required=False, choices=[("", _("any class")), *words.CLASSES.items()]
    )
    business: "forms.ModelChoiceField[Business]" = forms.ModelChoiceField(
        label=_("Business"), required=False, queryset=Business.objects.none(), empty_label=_("all businesses")
    )
    mine = forms.BooleanField(label=_("Only mine"), required=False)

    def __init__(self, request: PortalRequest) -> None:
        super().__init__(request.GET)
        self.user = request.user
        businesses = self.fields["business"]
        assert isinstance(businesses, forms.ModelChoiceField)
        businesses.queryset = access.businesses_of(request.user)
        for name, field in self.fields.items():
            look = "form-check-input" if name == "mine" else "form-control" if name == "q" else "form-select"
            field.widget.attrs["class"] = look

    def narrow(self, tasks: TaskQuerySet) -> TaskQuerySet:
        """Return the tasks that pass every valid filter."""
        self.is_valid()
        wanted = self.cleaned_data
        if state := wanted.get("state"):
            tasks = _in_state(tasks, state)
        if kind := wanted.get("kind"):
            tasks = tasks.filter(wanted_class=kind)
        if business := wanted.get("business"):
            tasks = tasks.filter(business=business)
        if wanted.get("mine"):
            tasks = tasks.filter(user=self.user)
        if text := wanted.get("q"):
            tasks = tasks.filter(_named(text))
        return tasks

    @property
    def narrows(self) -> bool:
        """Say whether any filter is set, so that an empty list can say why it is empty."""
        return any(self.cleaned_data.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of rows, newest first, and where its neighbours begin."""

    rows: list[Row]
    newer: int | None  # the page of rows above this id
    older: int | None  # the page of rows below this id


@page
def tasks(request: PortalRequest) -> HttpResponse:
    """Show the tasks that the user may see; htmx gets the rows alone."""
    filters = Filters(request)
    found = filters.narrow(Task.objects.visible_to(request.user))
    context = {"filters": filters, "page": cut(found, _id(request, "before"), _id(request, "after"))}
    return render(request, "tasks.html#list" if wants_fragment(request) else "tasks.html", context)


def cut(tasks: TaskQuerySet, before: int | None, after: int | None) -> Page:
    """Return the page below the id `before`, or above `after`, or the newest one."""
    if after is not None:
        return _above(tasks, after)
    below = tasks if before is None else tasks.filter(pk__lt=before)
    found = rows(below.order_by("-pk")[: PAGE + 1])
    shown = found[:PAGE]
    return Page(
        rows=shown,
        newer=shown[0].id if before is not None and shown else None,
        older=shown[-1].id if len(found) > PAGE else None,
    )


def _above(tasks: TaskQuerySet, after: int) -> Page:
    found = rows(tasks.filter(pk__gt=after).order_by("pk")[: PAGE + 1])
    shown = found[:PAGE][::-1]
    return Page(
        rows=shown,
        newer=shown[0].id if len(found) > PAGE else None,
        older=shown[-1].id if shown else None,
    )


def _in_state(tasks: TaskQuerySet, state: str) -> TaskQuerySet:
    if state == OPEN:
        return tasks.exclude(state__in=TERMINAL)
    return tasks.filter(state__in=TERMINAL) if state == OVER else tasks.filter(state=state)


def _named(text: str) -> Q:
    by_name = Q(task_flag__icontains=text)
    number = _number(text.lstrip("#"))
    return by_name if number is None else by_name | Q(pk=number)


def _id(request: PortalRequest, name: str) -> int | None:
    return _number(request.GET.get(name, ""))


def _number(text: str) -> int | None:
    """Return an id written in plain digits; the database takes 63 bits at most."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
    return number if number is not None and number < 2**63 else None
