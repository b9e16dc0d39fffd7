"""Tables in and out of the admin: what a table would change is shown before it does, and why is asked."""

from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from import_export.admin import ImportExportModelAdmin
from import_export.formats.base_formats import CSV
from import_export.forms import ConfirmImportForm, ImportForm

from quotas.resources import REASON


class ReasonedImport(ImportForm):
    """A table, and why it is read in."""

    reason = forms.CharField(
        label=_("reason"),
        max_length=255,
        help_text=_("Why. It is kept in the history of each row that changes."),
    )


class ReasonedConfirmation(ConfirmImportForm):
    """The question whether to go on, which carries the reason along."""

    reason = forms.CharField(widget=forms.HiddenInput())


class Exchange(ImportExportModelAdmin):
    """A list of the admin that is written out as CSV and read in again."""

    formats = [CSV]
    import_form_class = ReasonedImport
    confirm_form_class = ReasonedConfirmation
    skip_export_form = True
    import_template_name = "admin/table_import.html"

    def get_confirm_form_initial(self, request: HttpRequest, import_form: Any) -> dict[str, Any]:
        """Carry the reason along."""
        initial: dict[str, Any] = super().get_confirm_form_initial(request, import_form)
        return initial | ({REASON: import_form.cleaned_data[REASON]} if import_form else {})

    def get_import_data_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        """Hand the reason to the rows."""
        return {**super().get_import_data_kwargs(**kwargs), REASON: kwargs["form"].cleaned_data[REASON]}
