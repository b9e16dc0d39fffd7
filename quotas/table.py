"""Tables that are read in after their difference was looked at: what those of all kinds have in common."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Model
from django.utils.html import format_html
from django.utils.translation import gettext as _
from import_export.resources import ModelResource
from import_export.results import Error, RowResult
from import_export.widgets import CharWidget, IntegerWidget

from cluster import hints
from cluster.characters import not_kept
from quotas import many_rows
from quotas.named import NAMES, Named, batches, text

REASON = "reason"  # of the whole import, asked by its form
SHOWN = "shown"  # a list to which each row adds what it is before
SEEN = "seen"  # that list, of the look that was said yes to


class Whole(IntegerWidget):
    """A whole number; no other is cut to one."""

    def clean(self, value: Any, row: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """Return the number, None where the cell is blank. Raises ValueError."""
        cell = text(value)
        if cell and not cell.removeprefix("-").isdecimal():
            raise ValueError(_("%s is no whole number") % cell)
        return super().clean(cell, row, **kwargs)


class Words(CharWidget):
    """A text as a form takes it, without blanks around it; what a name may hold the row says that gets it."""

    def clean(self, value: Any, row: Mapping[str, Any] | None = None, **kwargs: Any) -> Any:
        """Return the text. Raises ValueError."""
        cell = text(value)
        if bad := not_kept(cell):
            raise ValueError(_("The character %s is not allowed here; remove it.") % bad)
        return super().clean(cell, row, **kwargs)


class Table(ModelResource):
    """What all of them have in common: found by names, checked like a form, kept with the reason of the import."""

    WIDGETS_MAP = ModelResource.WIDGETS_MAP | {"CharField": Words}

    class Meta:
        use_transactions = True
        use_bulk = True
        batch_size = None  # all at the end: a batch before would be written although a later row has a fault
        skip_diff = True  # a copy of every instance; the table knows what it changes

    def before_import(self, dataset: Any, **kwargs: Any) -> None:
        """Read what the table is about, all of it at once.

        Raises ValueError where a column is missing by which rows are found, or one is there twice.
        """
        self._lines: dict[tuple[Any, ...], int] = {}
        self._new: list[tuple[int, Any, RowResult]] = []
        self._dataset, self._heads = dataset, self.get_diff_headers()
        if fault := self._fault_of(list(dataset.headers or [])):
            del dataset[:]  # else each of its rows would have a fault as well
            raise ValueError(fault)
        for field in self.get_import_fields():
            if isinstance(field.widget, Named) and field.column_name in dataset.headers:
                field.widget.look_up(dataset[field.column_name])
        self._there = self._read(dataset, to_write=SEEN in kwargs)

    def _fault_of(self, heads: list[str]) -> str:
        if missing := [name for name in self.get_import_id_fields() if name not in heads]:
            way_out = _("The first line names the columns, with commas between them.")
            return _("The columns %s are missing.") % ", ".join(missing) + " " + way_out
        twice = sorted({name for name in heads if heads.count(name) > 1})
        return _("The columns %s are there twice.") % ", ".join(twice) if twice else ""

    def _read(self, dataset: Any, *, to_write: bool) -> dict[tuple[Any, ...], Any]:
        """Return the rows that the table may be about, by what rows are found by."""
        names = self.get_import_id_fields()
        first = self.fields[names[0]]
        cells = {cell for each in dataset[first.column_name] if not not_kept(cell := text(each))}
        if isinstance(first.widget, Named):
            cells = {row.pk for cell in cells if (row := first.widget.named(cell))}
        rows = self.get_queryset().select_for_update(of=("self",)) if to_write else self.get_queryset()
        found = [
            row for some in batches(sorted(cells), NAMES) for row in rows.filter(**{f"{names[0]}__in": some})
        ]
        return {_key(getattr(row, name) for name in names): row for row in found}

    def before_import_row(self, row: Any, **kwargs: Any) -> None:
        """Refuse a row that the table has already: which of both holds would be chance. Raises ValueError."""
        key, number = self._key_of(row), kwargs.get("row_number") or 0
        if any(key) and self._lines.setdefault(key, number) != number:
            raise ValueError(_("it stands in row %d already") % self._lines[key])

    def _key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        fields = [self.fields[name] for name in self.get_import_id_fields()]
        return _key(field.clean(row) for field in fields)

    def get_instance(self, instance_loader: Any, row: Mapping[str, Any]) -> Any:
        """Find a row also where no region is named, which no look-up by equality does."""
        return self._there.get(self._key_of(row))

    def after_init_instance(self, instance: Any, new: bool, row: Any, **kwargs: Any) -> None:
        """Keep what the row is before; one that is not what was seen is refused. Raises ValueError."""
        self._before = None if new else self._written(instance)
        now = self._held(row)
        if SHOWN in kwargs:
            kwargs[SHOWN].append(now)
        if SEEN in kwargs and (seen := kwargs[SEEN][kwargs["row_number"] - 1]) != now:
            raise ValueError(_what_changed(seen, now))

    def _written(self, instance: Any) -> list[str]:
        """Return what an instance is in each column."""
        return [text(self.export_field(field, instance)) for field in self.get_import_fields()]

    def _held(self, row: Mapping[str, Any]) -> dict[str, str] | None:
        """Return what the columns of the table are, but those by which rows are found; None for a new row."""
        if self._before is None:
            return None
        heads = [field.column_name for field in self.get_import_fields()]
        shown = row.keys() - set(self.get_import_id_fields())
        return {head: cell for head, cell in zip(heads, self._before, strict=True) if head in shown}

    def skip_row(self, instance: Any, original: Any, row: Any, import_validation_errors: Any = None) -> bool:
        """Skip a row that stays as it is."""
        self._after = self._written(instance)
        return not import_validation_errors and self._before == self._after

    def after_import_row(self, row: Any, row_result: Any, **kwargs: Any) -> None:
        """Show what it changes, in marks that take no style of their own: the CSP would refuse it."""
        if self._before is None:
            cells: list[str] = [format_html("<ins>{}</ins>", cell) for cell in self._after]
        else:
            cells = [_marked(*each) for each in zip(self._before, self._after, strict=True)]
        row_result.diff = list(zip(self._heads, cells, strict=True))
        if row_result.import_type == RowResult.IMPORT_TYPE_NEW:
            self._new.append((kwargs["row_number"], row, row_result))

    def validate_instance(
        self, instance: Any, import_validation_errors: Any = None, validate_unique: bool = True
    ) -> None:
        """Check a row like a form, but for what names led to: that is there, and it is there once.

        Raises ValidationError.
        """
        errors = dict(import_validation_errors or {})
        named = [field.attribute for field in self.get_import_fields() if isinstance(field.widget, Named)]
        there = {name for name in named if getattr(instance, f"{name}_id") is not None}
        try:
            instance.full_clean({*errors, *there}, validate_unique=False, validate_constraints=False)
        except ValidationError as error:
            errors = error.update_error_dict(errors)
        if errors:
            raise ValidationError(errors)

    def save_instance(self, instance: Any, is_create: bool, row: Any, **kwargs: Any) -> None:
        """Keep it to be saved with the others; a look does not."""
        if not kwargs.get("dry_run"):
            super().save_instance(instance, is_create, row, **kwargs)

    def bulk_create(
        self,
        using_transactions: bool,
        dry_run: bool,
        raise_errors: bool,
        batch_size: Any = None,
        result: Any = None,
    ) -> None:
        """Add the new rows; of those that somebody else adds at this moment each is a fault of its line."""
        new = _taken_from(self.create_instances)
        try:
            with transaction.atomic():
                many_rows.add(new)
        except IntegrityError as error:
            if not self._say_which_are_there(result):
                self.handle_import_error(result, error, raise_errors)
        else:
            self.after_bulk(new)

    def _say_which_are_there(self, result: Any) -> bool:
        there = self._read(self._dataset, to_write=True)
        taken = [(number, row, said) for number, row, said in self._new if self._key_of(row) in there]
        for number, row, said in taken:
            said.errors.append(Error(ValueError(_what_changed(None, {})), row=row, number=number))
            result.append_error_row(number, row, said.errors)
        return bool(taken)

    def bulk_update(
        self,
        using_transactions: bool,
        dry_run: bool,
        raise_errors: bool,
        batch_size: Any = None,
        result: Any = None,
    ) -> None:
        """Write the rows that change."""
        changed = _taken_from(self.update_instances)
        many_rows.change(changed)
        self.after_bulk(changed)

    def after_bulk(self, written: list[Any]) -> None:
        """Do what belongs to rows that were written."""

    def before_save_instance(self, instance: Any, row: Any, **kwargs: Any) -> None:
        """Hand the reason to the history."""
        instance._change_reason = kwargs.get(REASON, "")

    def after_import(self, dataset: Any, result: Any, **kwargs: Any) -> None:
        """Let the next pass see it now."""
        if not kwargs.get("dry_run"):
            hints.wake_pass()


def _taken_from(collected: list[Any]) -> list[Any]:
    """Return what was collected, and begin with nothing again."""
    taken = collected[:]
    collected.clear()
    return taken


def _marked(old: str, new: str) -> str:
    return new if old == new else format_html("<del>{}</del> <ins>{}</ins>", old, new)


def _key(values: Any) -> tuple[Any, ...]:
    return tuple(value.pk if isinstance(value, Model) else value for value in values)


def _what_changed(seen: dict[str, str] | None, now: dict[str, str] | None) -> str:
    """Return what became of a row since it was looked at."""
    if seen is None:
        return _("it was added since you looked")
    if now is None:
        return _("it was deleted since you looked")
    words = _("%(column)s was %(seen)s when you looked and is %(now)s now")
    return ", ".join(
        words % {"column": column, "seen": seen[column] or "–", "now": now[column] or "–"}
        for column in seen
        if seen[column] != now[column]
    )
