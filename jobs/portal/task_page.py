"""The page of one task: where it stands and why, what happened to it, and what may be done with it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from cluster import inventory, logs
from jobs import config, elsewhere, services
from jobs.engine import ask, forecasts
from jobs.models import Task
from jobs.portal import audience, causes, differences, history, once, rows, steps, waiting, words
from jobs.portal.doors import PortalRequest, page, wants_fragment
from jobs.services import STEERING
from jobs.states import State
from quotas import access


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was asked for, in words."""

    cards: str
    types: str
    class_label: str
    class_colour: str


@page
@require_safe
def task(request: PortalRequest, pk: int) -> HttpResponse:
    """Show a task; htmx gets the part that changes."""
    found = _visible(request, pk)
    context = _changing(found, request.user)
    if wants_fragment(request):
        part = render(request, "task.html#live", context | {"shared": True})
        named = frozenset(cause.business for cause in _causes(context))
        who = audience.Audience(business=found.business_id, owner=found.user_id, named=named)
        audience.tell(part, who)
        return part
    context |= {
        "key": once.new(),
        "document": json.dumps(found.config, ensure_ascii=False, indent=2),
        "differences": differences.from_origin(found, request.user),
    }
    return render(request, "task.html", context)


def _changing(task: Task, user: User) -> dict[str, Any]:
    """Return what the part that changes shows: of the user it depends by what `audience` tells apart alone."""
    outlook = forecasts.outlook(task)
    attempts = history.attempts(task, user)
    origins = [task.origin_id] if task.origin_id else []
    return {
        "task": task,
        "status": rows.status(task.state),
        "facts": _facts(task),
        "why": waiting.why(task, user),
        "outlook": outlook,
        "basis": ask.basis_said(outlook.basis) if outlook else None,
        "steps": steps.steps(task, attempts[0] if attempts else None),
        "attempts": attempts,
        "failure": attempts[0] if attempts and task.state == State.FAILED else None,
        "logs_stop": not task.is_over and not logs.has_room(),
        "origin": causes.named(origins, user).get(task.origin_id or 0),
        "moments": history.moments(task, user),
        "verbs": _verbs(user, task),
        "elsewhere": elsewhere.about(elsewhere.named(task.config)),
    }


def _causes(context: dict[str, Any]) -> Iterator[causes.Cause]:
    """Give the other tasks that the part that changes names."""
    why: waiting.Waiting | None = context["why"]
    named = [context["origin"], *(shown.cause for shown in context["attempts"] + context["moments"])]
    if why:
        named += [why.head, *why.leaving]
    yield from (cause for cause in named if cause)


@page
@require_POST
def act(request: PortalRequest, pk: int, verb: str) -> HttpResponse:
    """Stop, hold, release or free a task, or run it again, and come back to its page."""
    found = _visible(request, pk)
    if verb not in STEERING and verb != "retry":
        raise Http404
    if verb in STEERING and not access.may_steer(request.user, found.business_id, found.user_id):
        raise PermissionDenied
    try:
        if verb == "retry":
            after = services.retry(found, request.user, once.key(request, f"retry-{pk}"))
        else:
            after = STEERING[verb](found, request.user)
    except services.Conflict as conflict:
        messages.error(request, conflict.message)
        return redirect("task", pk=pk)
    except config.Invalid as invalid:
        for fault in invalid.faults:
            messages.error(request, f"{fault.field}: {fault.message}")
        return redirect("task", pk=pk)
    if verb == "retry":
        messages.success(request, _("Submitted again as task %(id)d.") % {"id": after.pk})
    return redirect("task", pk=after.pk)


def _visible(request: PortalRequest, pk: int) -> Task:
    tasks = Task.objects.visible_to(request.user).select_related("business", "user", "region", "origin")
    return get_object_or_404(tasks, pk=pk)


def _verbs(user: User, task: Task) -> frozenset[str]:
    """Return what the user may do with the task now; whoever sees a task may copy it."""
    legal = services.allowed(task)
    return legal if access.may_steer(user, task.business_id, task.user_id) else legal & {"clone", "retry"}


def _facts(task: Task) -> Facts:
    names = inventory.type_names()
    return Facts(
        cards=rows.shape(task.host_num, task.host_gpu_num),
        types=", ".join(names.get(pk, f"#{pk}") for pk in task.gpu_types),
        class_label=str(words.CLASSES.get(task.wanted_class, task.wanted_class)),
        class_colour=words.CLASS_COLOURS.get(task.wanted_class, "secondary"),
    )
