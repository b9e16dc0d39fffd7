"""Rows whose names keep to the rule for characters when they are given: what they hold from before may stay."""

from collections.abc import Collection

from django.db import models

from cluster.characters import bad_character, one_line


class KeepsNames(models.Model):
    """A row that is refused only for a name that changes."""

    class Meta:
        abstract = True

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Check each field, but for names that the row has already. Raises ValidationError."""
        left = set(exclude or ())
        refused = [
            field.name
            for field in self._meta.concrete_fields
            if one_line in field.validators
            and field.name not in left
            and bad_character(str(getattr(self, field.name)), lines=False)
        ]
        if refused and self.pk is not None:
            held = type(self)._default_manager.filter(pk=self.pk).values(*refused).first() or {}
            left |= {name for name in refused if held.get(name) == getattr(self, name)}
        super().clean_fields(left)
