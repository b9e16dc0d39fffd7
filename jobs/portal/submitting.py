"""The submit page: a form and its JSON, what would become of them beside it, and then the task."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from jobs import config, elsewhere, services, templates
from jobs.models import Task
from jobs.portal import newcomers, once, saving, starts, texts, verdict
from jobs.portal.desk import Desk
from jobs.portal.doors import PortalRequest, page
from jobs.portal.entries import CLASSES, typed
from jobs.portal.forms import ConfigForm
from jobs.values import Fault


@page
@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: PortalRequest) -> HttpResponse:
    """Show the form, or do with it what the pressed button says; without scripts all of it goes this way."""
    desk = Desk(request)
    if not desk.flags and (newcomer := newcomers.of(request.user)):
        return render(request, "no_business.html", {"newcomer": newcomer})
    if request.method != "POST":
        return _begin(desk)
    if "use" in request.POST:
        return _filled(desk, _changed(desk))
    return BUTTONS.get(request.POST.get("do", ""), _submit)(desk)


@page
@require_POST
def preview(request: PortalRequest) -> HttpResponse:
    """Say what would become of the form; ?alternatives says what else would start."""
    desk = Desk(request)
    form = desk.sent()
    wanted = "alternatives" in request.GET
    answer = verdict.of(request.user, form, origin=desk.origin, alternatives=wanted)
    part = "includes/alternatives.html" if wanted else "includes/answer.html"
    return render(request, part, desk.context(form) | {"answer": answer})


@page
@require_POST
def fill(request: PortalRequest) -> HttpResponse:
    """Return the fields filled from the JSON, or with a change that was chosen; what is faulty fills nothing."""
    desk = Desk(request)
    chosen = "use" in request.POST
    try:
        document = _changed(desk) if chosen else desk.read_text()
    except config.Invalid as invalid:
        refusal = render(request, "includes/text_faults.html", {"text_faults": invalid.faults, "swap": True})
        refusal["HX-Reswap"] = "none"
        return refusal
    form = desk.form(typed(document))
    answer = verdict.of(request.user, form, origin=desk.origin)
    context = desk.context(form) | {
        "answer": answer,
        "text_mark": "" if chosen else texts.mark(desk.box.text),
    }
    faults = [] if chosen else desk.faults_of(document)
    return render(request, "includes/filled.html", context | {"text_faults": faults})


def _begin(desk: Desk) -> HttpResponse:
    request = desk.request
    if desk.origin is not None and (job := elsewhere.named(desk.origin.config)):
        messages.error(request, elsewhere.not_here(job))
        return redirect("task", pk=desk.origin.pk)
    if desk.origin is not None:
        start = starts.copy_of(desk.origin, desk.flags)
    else:
        start = starts.begin(request.user, desk.flags, desk.template, _clicked(request.GET))
    form = desk.form(None, initial=typed(start.document))
    form.say_origins(start.origins)
    # The box beside it shows what the form says once it is sent as it is.
    return desk.show(form, document=desk.form(typed(start.document)).document())


def _clicked(query: Mapping[str, str]) -> dict[str, Any]:
    """Return what a link asks for: free cards are there for elastic tasks, unless it says another class."""
    clicked: dict[str, Any] = {}
    if "gpu_type" in query:
        clicked |= {"GPUName": query["gpu_type"], "is_elasticity": True}
    if "region" in query:
        clicked["region"] = query["region"]
    if (chosen := query.get("is_elasticity", "")) in CLASSES:
        clicked["is_elasticity"] = CLASSES[chosen]
    for name in ("host_num", "host_gpu_num"):
        number = query.get(name, "")
        if number.isascii() and number.isdigit() and len(number) < 6:
            clicked[name] = int(number)
    return clicked


def _submit(desk: Desk) -> HttpResponse:
    """Make a task of what is meant; or show the form again with all its faults, and nothing lost."""
    try:
        form = _meant(desk)
    except config.Invalid as invalid:
        form = desk.sent()
        _blame_all(desk, form)
        return _refused(desk, form, text_faults=invalid.faults)
    document = form.document()
    try:
        if form.errors:  # it cannot become a task, and everything else that is wrong is said with it
            _blame_all(desk, form)
            return _refused(desk, form)
        task = _create(desk, document)
    except config.Invalid as invalid:
        form.blame(invalid.faults)
        return _refused(desk, form)
    messages.success(desk.request, _("Task %(id)d was submitted.") % {"id": task.pk})
    return redirect("task", pk=task.pk)


def _meant(desk: Desk) -> ConfigForm:
    """Return the form as it is meant: filled from the JSON where only that was changed; raises Invalid."""
    form = desk.sent()
    document = texts.taken_over(desk.box, form.document())
    return desk.form(typed(document)) if desk.box.changed else form


def _refused(desk: Desk, form: ConfigForm, text_faults: Sequence[Fault] = ()) -> HttpResponse:
    refused = _("Nothing was submitted: some fields need another look.")
    return desk.show(form, refused=refused, text_faults=text_faults)


def _blame_all(desk: Desk, form: ConfigForm) -> None:
    """Put every fault of the form beside its field."""
    try:
        config.read(form.document(), user=desk.request.user, origin=desk.origin)
    except config.Invalid as invalid:
        form.blame(invalid.faults)


def _create(desk: Desk, document: Mapping[str, Any]) -> Task:
    """Submit a document; a second click on the same form finds the task of the first."""
    key, user = once.key(desk.request, "form"), desk.request.user
    if key is None:
        return services.submit(user, document, origin=desk.origin)
    # Sent before, gone back to and changed since, it is another task. Keyed: the document may hold secrets.
    typed_so = salted_hmac("form", json.dumps(document, sort_keys=True), algorithm="sha256").hexdigest()
    mark = f"{key}-{typed_so}"
    return services.submit(user, document, origin=desk.origin, idempotency_key=mark)


def _check(desk: Desk) -> HttpResponse:
    """Show the form again, with what would become of it."""
    try:
        form = _meant(desk)
    except config.Invalid as invalid:
        return desk.show(desk.sent(), text_faults=invalid.faults)
    answer = verdict.of(desk.request.user, form, origin=desk.origin, alternatives=True)
    return desk.show(form, answer=answer)


def _read(desk: Desk) -> HttpResponse:
    """Fill the form from the JSON, or from a file."""
    try:
        return _filled(desk, desk.read_text())
    except config.Invalid as invalid:
        return desk.show(desk.sent(), text_faults=invalid.faults)


def _filled(desk: Desk, document: Mapping[str, Any]) -> HttpResponse:
    form = desk.form(typed(document))
    answer = verdict.of(desk.request.user, form, origin=desk.origin, alternatives=True)
    return desk.show(form, answer=answer)


def _changed(desk: Desk) -> dict[str, Any]:
    """Return the form's document with the change of an alternative laid over it; None leaves a field out."""
    document = desk.sent().document()
    try:
        change = json.loads(desk.request.POST["use"])
    except (ValueError, RecursionError):
        return document
    laid = document | change if isinstance(change, dict) else document
    return {name: value for name, value in laid.items() if value is not None}


def _save_new(desk: Desk) -> HttpResponse:
    return _save(desk, over=False)


def _save_over(desk: Desk) -> HttpResponse:
    return _save(desk, over=True)


def _save(desk: Desk, *, over: bool) -> HttpResponse:
    """Keep the form as a template, and show it again as it is."""
    request, said = desk.request, desk.save_form(desk.request.POST, over=over)
    refused = _("The template was not saved: some fields need another look.")
    try:
        form = _meant(desk)
    except config.Invalid as invalid:
        return desk.show(desk.sent(), refused=refused, text_faults=invalid.faults, save_form=said)
    document = form.document()
    form.blame(templates.faults(document))
    changed = saving.changeable(request.user, desk.template.pk) if over and desk.template else None
    if said.is_valid() and (taken := saving.name_taken(request.user, said.cleaned_data, changed)):
        said.add_error("save_name", taken)
    if form.errors or form.general or said.errors:
        return desk.show(form, refused=refused, save_form=said)
    desk.template = saving.save(request.user, said.cleaned_data, document, changed)
    messages.success(request, _("The template “%(name)s” was saved.") % {"name": desk.template.name})
    return desk.show(form, save_form=desk.save_form())


BUTTONS: dict[str, Callable[[Desk], HttpResponse]] = {
    "check": _check,
    "read": _read,
    "template": _save_new,
    "template-over": _save_over,
}
