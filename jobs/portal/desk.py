"""What lies on the submit page: the form, the box beside it, templates, the copied task."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _

from cluster.models import GpuType, Region
from jobs import config
from jobs.fields import FIELDS
from jobs.models import Task, Template
from jobs.parse import LONGEST
from jobs.portal import once, saving, starts, texts
from jobs.portal.doors import PortalRequest
from jobs.portal.exports import exports
from jobs.portal.forms import ConfigForm
from jobs.portal.verdict import Answer
from jobs.values import Fault, Invalid
from quotas import access
from quotas.models import DefaultGpuType

# Fields of the config document that this installation knows and does not run yet.
NOT_YET = {name: field.says for name, field in FIELDS.items() if field.refused}


class Desk:
    """One request to the submit page, and everything that its answer shows."""

    def __init__(self, request: PortalRequest) -> None:
        """Find the copied task and the opened template; raises Http404 for a task that the user may not see."""
        self.request = request
        self.origin = _origin(request)
        asked = request.POST if request.method == "POST" else request.GET
        self.template: Template | None = saving.opened(request.user, asked.get("template"))
        self.box = texts.beside(request.POST)

    @property
    def _opened(self) -> int:
        return self.template.pk if self.template else 0

    @cached_property
    def flags(self) -> list[str]:
        """Return the businesses that the user may submit for."""
        return list(access.businesses_of(self.request.user).values_list("flag", flat=True))

    @cached_property
    def regions(self) -> list[str]:
        """Return the names of all regions."""
        return list(Region.objects.values_list("name", flat=True))

    def form(self, data: Mapping[str, Any] | None, initial: Mapping[str, Any] | None = None) -> ConfigForm:
        """Return a form that was filled with `data`, or begins with `initial`."""
        form = ConfigForm(data, businesses=self.flags, regions=self.regions, initial=initial)
        form.fields["image_full_name"].help_text = starts.image()
        return form

    def sent(self) -> ConfigForm:
        """Return the form as it was sent."""
        return self.form(self.request.POST)

    def read_text(self) -> dict[str, Any]:
        """Return the document in the chosen file, else in the box; raises Invalid."""
        file = self.request.FILES.get("file")
        if file:
            self.box = texts.beside({"json": _text_of(file)})
        return texts.read(self.box.text, self.sent().document())

    def faults_of(self, document: Mapping[str, Any]) -> list[Fault]:
        """Return every fault of a document that was read from the box, for the list beside it."""
        try:
            config.read(document, user=self.request.user, origin=self.origin)
        except Invalid as invalid:
            return invalid.faults
        return []

    def save_form(self, data: Mapping[str, Any] | None = None, *, over: bool = False) -> saving.SaveForm:
        """Return the fields for saving a template: to be checked, or only with what was typed in them before.

        With `over` it is to be saved in place of the one that was opened.
        """
        begun = {
            name: self.request.POST[name] for name in saving.SaveForm.base_fields if name in self.request.POST
        }
        form = saving.SaveForm(
            data, user=self.request.user, flags=self.flags, opened=self.template, over=over
        )
        form.initial.update(begun)
        return form

    def context(self, form: ConfigForm, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what the fields and all that says the same in other words need."""
        document = form.document() if document is None else document
        return {
            "form": form,
            "gpu_types": list(GpuType.objects.values_list("name", flat=True)),
            "default_types": self._default_types(document.get("business_flag")),
            "exports": exports(document, *map(self.request.build_absolute_uri, ("/", reverse("api-tasks")))),
            "form_mark": texts.mark_of(document),
            "not_yet": NOT_YET,
        }

    def _default_types(self, flag: object) -> list[str]:
        rows = DefaultGpuType.objects.filter(business__flag=flag if flag in self.flags else "")
        return list(rows.values_list("gpu_type__name", flat=True))

    def show(
        self,
        form: ConfigForm,
        *,
        document: Mapping[str, Any] | None = None,
        refused: str = "",
        answer: Answer | None = None,
        text_faults: Sequence[Fault] = (),
        save_form: saving.SaveForm | None = None,
    ) -> HttpResponse:
        """Return the whole page; `refused`: what was not done, and why. What is faulty in the box stays there."""
        context = self.context(form, document)
        context |= {
            "key": self.request.POST.get("key") or once.new(),
            "origin": self.origin,
            "template": self.template,
            "offers": (offers := saving.offers(self.request.user)),
            "may_change": any(offer.changeable for offer in offers if offer.id == self._opened),
            "save_form": save_form or self.save_form(),
            "refused": refused,
            "complaints": form.complaints() if refused else [],
            "answer": answer,
            "text": self.box.text if text_faults else context["exports"].json,
            # What is faulty stays as it is, and so does what it was made from.
            "json_was": self.box.text_mark if text_faults else context["form_mark"],
            "form_was": self.box.form_mark if text_faults else context["form_mark"],
            "text_faults": text_faults,
        }
        return render(self.request, "submit.html", context)


def _text_of(file: "UploadedFile[Any]") -> str:
    """Return what a chosen file says; raises Invalid for one that is no text, or far too long."""
    try:
        return str(file.read(LONGEST + 1).decode("utf-8-sig"))
    except UnicodeDecodeError:
        message = _("The file %(name)s is no text in UTF-8.") % {"name": file.name}
        raise Invalid([Fault("", "malformed", message)]) from None


def _origin(request: PortalRequest) -> Task | None:
    """Return the task that is cloned, where it is one that the user may see."""
    given = request.POST.get("clone") or request.GET.get("clone")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise Http404
    return get_object_or_404(Task.objects.visible_to(request.user), pk=int(given))
