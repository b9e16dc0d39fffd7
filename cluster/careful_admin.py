"""How the admin takes what somebody wrote into an address or a form by hand: as no row, or as a bad request."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import BadRequest, ValidationError
from django.db import DataError
from django.db.models import BigIntegerField, DateTimeField
from django.forms.models import BaseInlineFormSet
from django.http import Http404, HttpRequest, HttpResponse

TOO_LARGE = (OverflowError, DataError)  # what databases say of a number, or of a text, that no column holds
LARGEST = BigIntegerField.MAX_BIGINT


class CarefulSelect(AutocompleteSelect):
    """A field with a search, which begins with nothing where it is told to begin with what is no row's key."""

    def optgroups(self, name: Any, value: Any, attrs: Any = None) -> Any:
        """Return the chosen ones among what may be a key: the database is asked for no other."""
        keys = self.field.remote_field.model._meta.pk
        return super().optgroups(name, [one for one in value if not one or _may_be(keys, one)], attrs)


class CarefulFields:
    """Of a form of the admin, or of the rows within one: its fields with a search are careful."""

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """Return the field."""
        known: Any = self
        if db_field.name in known.get_autocomplete_fields(request) and "widget" not in kwargs:
            kwargs["widget"] = CarefulSelect(db_field, known.admin_site, using=kwargs.get("using"))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]  # of the other base


class CarefulRows(BaseInlineFormSet):
    """Rows within a form, of which one that is there already is a fault of its line.

    Django looks for others that are alike by `unique_together` alone: one of a constraint would be found by the
    database, and end in an error.
    """

    def clean(self) -> None:
        """Look for others like each row that is added or changed."""
        super().clean()
        for form in self.forms:
            if form.is_valid() and form.has_changed() and form not in self.deleted_forms:
                known: Any = form
                try:
                    form.instance.validate_constraints(exclude=known._get_validation_exclusions())
                except ValidationError as error:
                    form.add_error(None, error.messages)


class CarefulTable(CarefulFields, admin.TabularInline):
    """Rows of another model within a form."""

    formset = CarefulRows


class Careful(CarefulFields, admin.ModelAdmin):
    """All pages of a model, whatever they are asked."""

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Allow no patterns: what one costs, and whether it is one, is known when the database is at it."""
        return not lookup.endswith("regex") and super().lookup_allowed(lookup, value, request)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list; narrowed by what no column holds it is one with a fault, as Django treats others."""
        try:
            return super().get_changelist_instance(request)
        except TOO_LARGE as error:
            raise IncorrectLookupParameters from error

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return what an address says that a new row is to begin with, but for times that are none."""
        said: dict[str, Any] = super().get_changeform_initial_data(request)
        times = {field.name: field for field in self.model._meta.fields if isinstance(field, DateTimeField)}
        return {name: value for name, value in said.items() if name not in times} | {
            name: found for name, field in times.items() if (found := _time_of(field, said.get(name)))
        }

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show or take a form. Raises BadRequest where it holds what no column does."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except TOO_LARGE as error:
            raise BadRequest from error

    def history_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the history of a row, also of one that was deleted. Raises Http404 for what is no row's key."""
        if not _may_be(self.model._meta.pk, unquote(object_id)):
            raise Http404
        return super().history_view(request, object_id, *args, **kwargs)


def _time_of(field: Any, said: str | None) -> Any:
    try:
        return field.to_python(said)
    except ValidationError:
        return None


def _may_be(key: Any, given: Any) -> bool:
    try:
        found = key.to_python(given)
    except ValidationError:
        return False
    return not isinstance(found, int) or abs(found) <= LARGEST
