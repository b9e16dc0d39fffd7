"""The submit form: filled from a template, a task or a click on free cards; asked about, then sent."""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from cluster.models import GpuType, Region
from jobs import config, services
from jobs.engine import ask
from jobs.fields import FIELDS
from jobs.models import Task, Template
from jobs.portal import home
from jobs.portal.doors import PortalRequest, page
from jobs.portal.forms import ConfigForm, typed, without_kept_secrets
from quotas import access

# Fields of the config document that this installation knows and does not run yet.
NOT_YET = {name: field.says for name, field in FIELDS.items() if field.refused}
BLANK = {"host_num": 1, "host_gpu_num": 1, "is_elasticity": False}


@page
@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: PortalRequest) -> HttpResponse:
    """Show the form, or take what was typed: a task, or the form again with its faults."""
    origin, offered = _origin(request), home.templates(request)
    if request.method != "POST":
        start = _start(request, origin, offered)
        return _show(request, _form(request, initial=typed(start)), origin, offered)
    form = _form(request)
    document = form.document()
    try:
        if form.errors:  # it cannot become a task, and everything else that is wrong is said with it
            config.read(document, user=request.user, origin=origin)
            return _show(request, form, origin, offered)
        task = _submit(request, document, origin)
    except config.Invalid as invalid:
        form.blame(invalid.faults)
        return _show(request, form, origin, offered)
    messages.success(request, _("Task %(id)d was submitted.") % {"id": task.pk})
    return redirect("task", pk=task.pk)


@page
@require_POST
def preview(request: PortalRequest) -> HttpResponse:
    """Say what would become of what is typed, without submitting it."""
    form = _form(request)
    document = form.document()
    verdict = None
    try:
        verdict = ask.preview(request.user, without_kept_secrets(document))
    except config.Invalid as invalid:
        form.blame(invalid.faults)
    if form.errors:
        verdict = None
    faults = [(form.fields[name].label, found) for name, found in form.errors.items() if name in form.fields]
    context = {"verdict": verdict, "faults": faults, "general": form.general}
    return render(request, "submit.html#verdict", context)


def _submit(request: PortalRequest, document: Mapping[str, Any], origin: Task | None) -> Task:
    """Submit a document; a second click on the same form finds the task of the first."""
    key = request.POST.get("key", "")
    if not (key.isascii() and key.isalnum() and len(key) == len(uuid.uuid4().hex)):
        return services.submit(request.user, document, origin=origin)
    # Sent before, gone back to and changed since, it is another task. Keyed: the document may hold secrets.
    typed_so = salted_hmac("form", json.dumps(document, sort_keys=True), algorithm="sha256").hexdigest()
    mark = f"form-{key}-{typed_so}"
    return services.submit(request.user, document, origin=origin, idempotency_key=mark)


def _form(request: PortalRequest, initial: Mapping[str, Any] | None = None) -> ConfigForm:
    return ConfigForm(
        request.POST if initial is None else None,
        businesses=access.businesses_of(request.user).values_list("flag", flat=True),
        regions=Region.objects.values_list("name", flat=True),
        initial=initial,
    )


def _show(
    request: PortalRequest, form: ConfigForm, origin: Task | None, offered: list[Template]
) -> HttpResponse:
    context = {
        "form": form,
        "key": request.POST.get("key") or uuid.uuid4().hex,
        "origin": origin,
        "gpu_types": GpuType.objects.values_list("name", flat=True),
        "templates": offered,
        "not_yet": NOT_YET,
    }
    return render(request, "submit.html", context)


def _origin(request: PortalRequest) -> Task | None:
    """Return the task that is cloned, where it is one that the user may see."""
    given = request.POST.get("clone") or request.GET.get("clone")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise Http404
    return get_object_or_404(Task.objects.visible_to(request.user), pk=int(given))


def _start(request: PortalRequest, origin: Task | None, offered: list[Template]) -> dict[str, Any]:
    """Return the document that the form begins with."""
    if origin is not None:
        return dict(origin.config)
    document: dict[str, Any] = dict(BLANK)
    chosen = request.GET.get("template", "")
    for template in offered:
        if str(template.pk) == chosen:
            document |= template.config
    if "gpu_type" in request.GET:
        # Free cards are there for elastic tasks: a click on them means one.
        document |= {"GPUName": request.GET["gpu_type"], "is_elasticity": True}
    if "region" in request.GET:
        document["region"] = request.GET["region"]
    return document
