"""Who did what from where, for operators and auditors: searched, page by page, and as CSV."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from jobs import audit_search, deed_args
from jobs.filters import number
from jobs.portal.deed_words import said
from jobs.portal.doors import PortalRequest, oversee, page
from quotas.audit import AuditEntry

PAGE = 100


class Search(forms.Form):
    """What to look for; all that is filled in has to be so."""

    user = forms.CharField(label=_("User"), required=False, max_length=150)
    deed = forms.CharField(label=_("Deed begins with"), required=False, max_length=48)
    kind = forms.CharField(label=_("Kind"), required=False, max_length=32)
    target = forms.CharField(label=_("Id"), required=False, max_length=64)
    address = forms.CharField(label=_("Address"), required=False, max_length=45)
    since = forms.DateTimeField(label=_("From"), required=False)
    until = forms.DateTimeField(label=_("To"), required=False)

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        for name, field in self.fields.items():
            field.widget.attrs |= {"class": "form-control form-control-sm", "autocomplete": "off"}
            if name in {"since", "until"}:
                field.widget.attrs["placeholder"] = "2030-01-31 08:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An entry as the page shows it."""

    id: int
    at: datetime
    actor: str
    deed: str
    words: str | Promise
    kind: str
    target_id: str
    target: str
    address: str
    agent: str
    token_id: int | None
    args: str


@page
@require_safe
def audit(request: PortalRequest) -> HttpResponse:
    """Show one page of what was done, newest first."""
    oversee(request)
    form = Search(request.GET)
    found = list(_found(form)[: PAGE + 1]) if form.is_valid() else []
    kept = _asked(request, form)
    context = {
        "form": form,
        "lines": [_line(entry) for entry in found[:PAGE]],
        "next": urlencode({**kept, "below": found[PAGE - 1].pk}) if len(found) > PAGE else "",
        "query": urlencode(kept),
    }
    return render(request, "audit.html", context, status=200 if form.is_valid() else 400)


@page
@require_safe
def export(request: PortalRequest) -> HttpResponseBase:
    """Send all that matches, while it is read."""
    oversee(request)
    form = Search(request.GET)
    if not form.is_valid():  # a file with more than was asked for would not show it
        faults = [f"{name}: {fault}" for name, listed in form.errors.items() for fault in listed]
        return HttpResponse("\n".join(faults), status=400, content_type="text/plain; charset=utf-8")
    asked = _asked(request, form)
    return audit_search.send(form.cleaned_data, by=request.user, asked=asked, for_excel=True)


def _asked(request: PortalRequest, form: Search) -> dict[str, str]:
    """Return what the address asks for: what it says besides was checked by nothing."""
    return {name: value for name, value in request.GET.dict().items() if name in form.fields and value}


def _found(form: Search) -> Any:
    """Return the entries that match, below the one that the last page ended with."""
    rows = audit_search.found(form.cleaned_data)
    below = number(str(form.data.get("below", "")))
    return rows.filter(pk__lt=below) if below else rows


def _line(entry: AuditEntry) -> Line:
    return Line(
        id=entry.pk,
        at=entry.at,
        actor=entry.actor,
        deed=entry.deed,
        words=said(entry.deed),
        kind=entry.kind,
        target_id=entry.target_id,
        target=entry.target,
        address=entry.address,
        agent=entry.agent,
        token_id=entry.token_id,
        args=deed_args.in_words(entry.args),
    )
