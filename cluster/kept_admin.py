"""How the admin keeps what is needed: nothing in use is deleted, and changes keep who made them, when and why."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from simple_history.admin import SimpleHistoryAdmin

from cluster import in_use
from cluster.characters import bad_character, one_line

REASON_AT_MOST = 255
ASKED = frozenset({"reason", "seen"})  # fields of a form that are none of its row


class RefusesInUse(admin.ModelAdmin):
    """Refuses to delete a row that others need, alone, among selected ones or along with another, and says which."""

    kept_by: tuple[str, ...] = ()  # kinds of rows that would be deleted along, but are needed

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Return what would be deleted, and what forbids it: asked first, for there may be millions of it."""
        if request.method == "POST":
            # Whoever names one of them meanwhile keeps it (rows.keep): he is seen now, or finds it gone.
            rows = self.model._default_manager.filter(pk__in=[row.pk for row in objs])
            list(rows.select_for_update().order_by("pk").values_list("pk"))
        forbids = in_use.standing_in_the_way(objs, self.admin_site, *self.kept_by)
        if forbids:
            return [], {}, set(), forbids
        return super().get_deleted_objects(objs, request)


class ReasonForm(forms.ModelForm):
    """Asks why a row is changed, hands that to its history, and undoes nothing that was changed since it was shown."""

    reason = forms.CharField(
        label=_("reason"),
        max_length=REASON_AT_MOST,
        required=False,
        help_text=_("Why it is changed. It is kept in the history, where the business sees it too."),
        validators=[one_line],
    )
    seen = forms.CharField(label="", widget=forms.HiddenInput, required=False)  # what the page showed

    def has_changed(self) -> bool:
        """Say whether the row changes: a reason alone is none to keep."""
        return bool(set(self.changed_data) - ASKED)

    def get_initial_for_field(self, field: forms.Field, field_name: str) -> Any:
        """Return what a field begins with; `seen`: all that the row holds now."""
        if field_name != "seen":
            return super().get_initial_for_field(field, field_name)
        held = {name: self.initial.get(name) for name in self.fields if name not in ASKED}
        return json.dumps(held, default=str, sort_keys=True) if self.instance.pk else ""

    def clean(self) -> dict[str, Any] | None:
        """Take no change without a reason, and none of what somebody else has changed meanwhile."""
        cleaned = super().clean() or self.cleaned_data
        reason = (cleaned.get("reason") or "").strip()
        changes = set(self.changed_data) - ASKED
        if changes and self.instance.pk and cleaned.get("seen") and "seen" in self.changed_data:
            text = gettext("%s was changed by somebody else just now: look again.") % self.instance
            self.add_error(None, text)
        if not reason and changes:
            self.add_error("reason", gettext("Say why: it is kept in the history."))
        self.instance._change_reason = reason
        return cleaned


class KeepsHistory(SimpleHistoryAdmin):
    """Shows who changed a row, when, why, and what; nothing is turned back from there."""

    object_history_list_template = "admin/history_list.html"

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Keep nothing of a form with a reason for no change."""
        if not change or not isinstance(form, ReasonForm) or form.has_changed():
            super().save_model(request, obj, form, change)

    def history_form_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show no earlier row as a form: saved, it would bring back without a word what was changed since."""
        raise Http404

    def revert_disabled(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Say that nothing is turned back."""
        return True

    def set_history_delta_changes(
        self, request: HttpRequest, historical_records: Sequence[Any], foreign_keys_are_objs: bool = True
    ) -> None:
        """Say of each entry what it changed; of a record of keys and values, which of them."""
        super().set_history_delta_changes(request, historical_records, foreign_keys_are_objs)
        for record, before in pairwise(historical_records):
            for change in record.diff_against(before).changes:
                if isinstance(change.old, dict) and isinstance(change.new, dict):
                    record.history_delta_changes = list(_by_key(change.old, change.new))


class AsksWhyDeleted(KeepsHistory):
    """Deletes a row only with a reason, and one at a time."""

    delete_confirmation_template = "admin/delete_with_reason.html"

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Leave out to delete many at once."""
        return {
            name: what for name, what in super().get_actions(request).items() if name != "delete_selected"
        }

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask again where no reason was given, or one that is no sentence."""
        reason = request.POST.get("reason", "").strip()
        fault = gettext("Say why: it is kept in the history.") if not reason else ""
        if len(reason) > REASON_AT_MOST or bad_character(reason, lines=False):
            fault = gettext("Write at most %d printable characters.") % REASON_AT_MOST
        if request.method == "POST" and fault:
            self.message_user(request, fault, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        answer: HttpResponse = super().delete_view(request, object_id, extra_context)
        return answer

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Keep the reason."""
        obj._change_reason = request.POST["reason"].strip()
        super().delete_model(request, obj)


def _by_key(old: dict[str, Any], new: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            yield {"field": key, "old": old.get(key, "–"), "new": new.get(key, "–")}
