"""What would have been: the list of questions, asking one, its answer, calling it off, and making the change."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from cluster import clock, host_moves
from jobs import what_if_words
from jobs.engine import what_if_base, what_ifs
from jobs.filters import number
from jobs.portal import what_if_figures
from jobs.portal.doors import PortalRequest, oversee, page, wants_fragment
from jobs.portal.what_if_form import WhatIfForm
from jobs.simulation.what_if import from_json
from jobs.values import bad_character
from jobs.what_ifs import WhatIf
from quotas import access

PAGE = 20
SILENT_S = 15.0  # a replay tells each second how far it is
COLOURS = {
    WhatIf.State.WAITING: "azure",
    WhatIf.State.RUNNING: "cyan",
    WhatIf.State.DONE: "teal",
    WhatIf.State.FAILED: "red",
    WhatIf.State.CANCELED: "secondary",
}


def _operate(request: PortalRequest) -> None:
    oversee(request)
    if not access.is_operator(request.user):
        raise PermissionDenied


@page
@require_safe
def questions(request: PortalRequest) -> HttpResponse:
    """List what was asked, newest first."""
    oversee(request)
    rows = WhatIf.objects.select_related("user").defer("result").order_by("-pk")
    below = number(request.GET.get("below", ""))
    cut = list((rows.filter(pk__lt=below) if below else rows)[: PAGE + 1])
    shown = cut[:PAGE]
    changes = {row.pk: from_json(row.change) for row in shown}
    names = what_if_words.Names(changes.values())
    context = {
        "rows": [
            {
                "question": row,
                "colour": COLOURS[WhatIf.State(row.state)],
                "steps": list(what_if_words.steps(changes[row.pk], row.base, names)),
            }
            for row in shown
        ],
        "below": shown[-1].pk if len(cut) > PAGE else "",
        "may_ask": access.is_operator(request.user),
    }
    return render(request, "what_ifs.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def new_question(request: PortalRequest) -> HttpResponse:
    """Show the form, and keep the question that it asks."""
    _operate(request)
    form = WhatIfForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        question = what_ifs.ask(request.user, form.cleaned_data["days"], form.change)
        return redirect("what-if", pk=question.pk)
    return render(request, "what_if_new.html", {"form": form}, status=422 if form.is_bound else 200)


@page
@require_safe
def question(request: PortalRequest, pk: int) -> HttpResponse:
    """Show how far the answer is, or what it is."""
    oversee(request)
    asked = get_object_or_404(WhatIf.objects.select_related("user", "applied_by"), pk=pk)
    part = "#answer" if wants_fragment(request) else ""
    return render(request, f"what_if.html{part}", _shown(request, asked))


def _shown(request: PortalRequest, asked: WhatIf, faults: list[str] | None = None) -> dict[str, Any]:
    change = from_json(asked.change)
    names = what_if_words.Names([change])
    context: dict[str, Any] = {
        "question": asked,
        "colour": COLOURS[WhatIf.State(asked.state)],
        "steps": list(what_if_words.steps(change, asked.base, names)),
        "silent_s": int(silent) if (silent := asked.silent_s(clock.now())) > SILENT_S else 0,
        "given_up_s": what_ifs.GIVEN_UP_S,
        "fault": what_if_words.FAULTS.get(asked.fault, asked.fault),
        "may_operate": access.is_operator(request.user),
        "only_bought": bool(change.added) and not (change.quotas or change.policy or change.hosts),
        "bought": bool(change.added),
        "faults": faults or [],
        "reason": request.POST.get("reason", ""),
    }
    if asked.result:
        context |= {
            "whole": what_if_figures.whole(asked.result),
            "groups": what_if_figures.groups(asked.result),
            "courses": what_if_figures.courses(asked.result),
            "result": asked.result,
        }
    return context


@page
@require_POST
def call_off(request: PortalRequest, pk: int) -> HttpResponse:
    """Call a question off whose answer is still to come."""
    _operate(request)
    asked = get_object_or_404(WhatIf, pk=pk)
    if what_ifs.call_off(asked, request.user):
        messages.success(request, _("It was called off."))
    else:
        messages.info(request, _("It was over already."))
    return redirect("what-if", pk=pk)


@page
@require_POST
def apply(request: PortalRequest, pk: int) -> HttpResponse:
    """Make the change, unless what it was tried against is not so any more."""
    _operate(request)
    asked = get_object_or_404(WhatIf.objects.select_related("user", "applied_by"), pk=pk)
    faults = _apply(request, asked, request.POST.get("reason", "").strip())
    if faults:
        return render(request, "what_if.html", _shown(request, asked, faults), status=409)
    return redirect("what-if", pk=pk)


def _apply(request: PortalRequest, asked: WhatIf, reason: str) -> list[str]:
    """Make the change; return what keeps it from being made."""
    if not reason or len(reason) > host_moves.REASON_AT_MOST or bad_character(reason, lines=False):
        return [
            _("Say why, in at most %d printable characters: it is kept with the change.")
            % host_moves.REASON_AT_MOST
        ]
    try:
        what_ifs.apply(asked, request.user, reason)
    except what_ifs.NotToMake:
        return [_("Only a change that was tried to the end, and not made yet, can be made.")]
    except what_if_base.Changed as changed:
        change = from_json(asked.change)
        said = what_if_words.what_changed(changed.what, change, what_if_words.Names([change]))
        return [_("Nothing was changed: this was tried against what is not so any more. Ask again."), *said]
    except host_moves.Refused as refused:
        return [refused.message]
    messages.success(request, _("The change is made."))
    return []
