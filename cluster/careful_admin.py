"""How the admin takes what somebody wrote into an address or a form by hand: as no row, or as a bad request."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import BadRequest, ValidationError
from django.db import DataError
from django.db.models import BigIntegerField, DateTimeField, Model, Q, UniqueConstraint, Value
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

    Django looks for none among the others of the form where a constraint holds for some rows only, and nowhere where
    it names the row that the form is of: one like it would be found by the database, and end in an error.
    """

    def clean(self) -> None:
        """Look for others like each row that is added or changed, but for those that the same form deletes."""
        super().clean()
        gone = [form.instance.pk for form in self.deleted_forms]
        kept = [form for form in self.forms if form.is_valid() and form not in self.deleted_forms]
        taken: set[Hashable] = set()
        kept.sort(key=lambda form: form.has_changed())  # those that stay as they are come first
        for form in kept:
            row, changed = form.instance, form.has_changed()
            for constraint, values in self._alone(row) if row.pk or changed else ():
                like = (constraint.name, *values.items())
                if changed and (like in taken or self._is_there(constraint, values, [*gone, row.pk])):
                    form.add_error(None, row.unique_error_message(self.model, constraint.fields))
                taken.add(like)

    def _alone(self, row: Model) -> Iterator[tuple[UniqueConstraint, Mapping[str, Any]]]:
        """Return what only one row of those within the form may have, as `row` has it."""
        fields = {field.name: field for field in row._meta.concrete_fields}
        known = {name: Value(getattr(row, field.attname), field) for name, field in fields.items()}
        for constraint in row._meta.constraints:
            if not isinstance(constraint, UniqueConstraint):
                raise TypeError(f"{constraint.name} would have to be looked at here, too")
            values = {name: known[name].value for name in constraint.fields if name != self.fk.name}
            may_be_alike = None not in values.values()
            if may_be_alike and (constraint.condition is None or constraint.condition.check(known)):
                yield constraint, values

    def _is_there(self, constraint: UniqueConstraint, values: Mapping[str, Any], but: list[Any]) -> bool:
        """Say whether there is a row like that, other than those with the keys `but`."""
        if self.instance.pk is None:  # what the form is of is only being added
            return False
        rows = cast(type[Model], self.model)._default_manager
        alike = rows.filter(**{self.fk.name: self.instance}, **values)
        others = alike.exclude(pk__in=[key for key in but if key is not None])
        return bool(others.filter(constraint.condition or Q()).exists())


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
