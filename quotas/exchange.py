"""Tables in and out of the admin: what one would change is shown before it does, why is asked."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import PurePath
from typing import Any

from django import forms
from django.contrib import messages
from django.core import signing
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from import_export.admin import ImportExportModelAdmin
from import_export.formats.base_formats import CSV
from import_export.forms import ConfirmImportForm, ImportForm
from import_export.results import RowResult

from cluster.characters import one_line
from cluster.unsaid import unsay
from quotas import audit, formulas
from quotas.table import REASON, SEEN, SHOWN

DEEDS = {
    RowResult.IMPORT_TYPE_NEW: "added",
    RowResult.IMPORT_TYPE_UPDATE: "changed",
    RowResult.IMPORT_TYPE_DELETE: "removed",
}  # in the words of the admin's other pages
CARRIED = ("import_file_name", "format", "resource", REASON)  # by the question, and by its answer unchanged


def _carried(fields: Mapping[str, Any]) -> list[str]:
    place, *others = (str(fields.get(name, "")) for name in CARRIED)
    return [PurePath(place).name, *others]  # the library asks with the path, and takes the name alone


class ReasonedImport(ImportForm):
    """A table, and why it is read in."""

    reason = forms.CharField(
        label=_("reason"),
        max_length=255,
        help_text=_("Why. It is kept in the history of each row that changes."),
        validators=[one_line],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Begin with no row shown."""
        super().__init__(*args, **kwargs)
        self.shown: list[Any] = []  # what each row is before, as the look goes through the table

    def for_rows(self) -> dict[str, Any]:
        """Return what the rows are read in with."""
        return {REASON: self.cleaned_data[REASON], SHOWN: self.shown}

    def for_confirmation(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the question carries besides: signed, since the answer says that somebody saw it."""
        reason = {REASON: self.cleaned_data[REASON]}
        seen = [_carried({**asked, **reason}), self.shown]
        return {**reason, SEEN: signing.dumps(seen, salt=SEEN, compress=True)}


class ReasonedConfirmation(ConfirmImportForm):
    """The question whether to go on, which carries along the reason and what was seen."""

    reason = forms.CharField(widget=forms.HiddenInput())
    seen = forms.CharField(widget=forms.HiddenInput())

    def clean_seen(self) -> list[Any]:
        """Return what the rows were when they were looked at."""
        try:
            carried, shown = signing.loads(self.cleaned_data[SEEN], salt=SEEN)
        except signing.BadSignature as error:
            raise forms.ValidationError(_("Choose the table again.")) from error
        if carried != _carried(self.cleaned_data):  # another file would be read in, and removed
            raise forms.ValidationError(_("Choose the table again."))
        return list(shown)

    def for_rows(self) -> dict[str, Any]:
        """Return what the rows are read in with."""
        return {REASON: self.cleaned_data[REASON], SEEN: self.cleaned_data[SEEN]}


class GuardedCsv(CSV):
    """CSV without formulas, of which what was written out is read in again as it was."""

    def export_data(self, dataset: Any, **kwargs: Any) -> Any:
        """Return the text of a table."""
        return super().export_data(_each_cell(dataset, formulas.guarded), **kwargs)

    def create_dataset(self, in_stream: Any, **kwargs: Any) -> Any:
        """Return the table of a text."""
        return _each_cell(super().create_dataset(in_stream, **kwargs), formulas.plain)


def _each_cell(table: Any, change: Callable[[Any], Any]) -> Any:
    return type(table)(*([change(cell) for cell in row] for row in table), headers=table.headers)


class Exchange(ImportExportModelAdmin):
    """A list of the admin that is written out as CSV and read in again."""

    formats = [GuardedCsv]
    import_form_class = ReasonedImport
    confirm_form_class = ReasonedConfirmation
    skip_export_form = True
    import_template_name = "admin/table_import.html"

    def get_confirm_form_initial(self, request: HttpRequest, import_form: Any) -> dict[str, Any]:
        """Carry along the reason and what was seen."""
        initial: dict[str, Any] = super().get_confirm_form_initial(request, import_form)
        return initial | (import_form.for_confirmation(initial) if import_form else {})

    def process_import(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Read a table in; the rows and what the audit says of them are one."""
        try:
            with transaction.atomic():
                answer: HttpResponse = super().process_import(request, **kwargs)
        except FileNotFoundError:  # as after a second click
            return self._again(
                request, gettext("The table was read in already, or a while ago. Choose it again.")
            )
        except IntegrityError:  # as of a row that was deleted, or added, since it was looked up here
            unsay(request)  # where the database says so at the very end, the import was said to be finished
            return self._again(
                request, gettext("What the table names was changed at this moment. Choose the table again.")
            )
        return answer

    def process_result(self, result: Any, request: HttpRequest) -> HttpResponse:
        """Say what has changed since the look at the table, where that keeps it from being read in."""
        if result.has_errors() or result.has_validation_errors():
            return self._refused(request, result)
        answer: HttpResponse = super().process_result(result, request)
        return answer

    def _refused(self, request: HttpRequest, result: Any) -> HttpResponse:
        said = gettext("Nothing was read in: something was changed since you looked. Choose the table again.")
        self.message_user(request, said, messages.ERROR)
        shown = {
            **self.admin_site.each_context(request),
            "title": gettext("Import"),
            "opts": self.model._meta,
            "result": result,
            "refused": True,
        }
        return TemplateResponse(request, [self.import_template_name], shown, status=HTTPStatus.CONFLICT)

    def _again(self, request: HttpRequest, said: str) -> HttpResponse:
        self.message_user(request, said, messages.ERROR)
        names = f"{self.model._meta.app_label}_{self.model._meta.model_name}"
        return HttpResponseRedirect(reverse(f"admin:{names}_import"))

    def add_data_read_fail_error_to_form(self, form: Any, e: Exception) -> None:
        """Say what to do with a table in another encoding, which some spreadsheets write by default."""
        if isinstance(e, UnicodeDecodeError):
            form.add_error("import_file", gettext("This is no text in UTF-8: save the table as “CSV UTF-8”."))
        else:
            super().add_data_read_fail_error_to_form(form, e)

    def generate_log_entries(self, result: Any, request: HttpRequest) -> None:
        """Write of each row what became of it, also into the audit: the library knows nothing of that."""
        super().generate_log_entries(result, request)
        kind = str(self.model._meta.model_name)
        for become, deed in DEEDS.items():
            rows = [(row.instance.pk, str(row.instance)) for row in result if row.import_type == become]
            if rows:
                why = request.POST.get(REASON, "")
                audit.note_many(f"{kind}.{deed}", rows, kind=kind, by=request.user, by_table=True, reason=why)

    def get_import_data_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        """Hand the rows the reason, and what was seen of them or a place to note it."""
        return {**super().get_import_data_kwargs(**kwargs), **kwargs["form"].for_rows()}
