"""Many rows added or changed together, each with its history: in statements for all of them, not for each."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Model
from simple_history.utils import bulk_create_with_history

from cluster import rows

AT_ONCE = 500  # rows in one statement


def add(new: Sequence[Model]) -> None:
    """Add rows of one model; each gets its key. Raises IntegrityError where one is there already."""
    if new:
        bulk_create_with_history(new, type(new[0]), batch_size=AT_ONCE)


def change(changed: Sequence[Any]) -> None:
    """Write rows of one model as they are now."""
    if not changed:
        return
    model = type(changed[0])
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    values = {row.pk: [getattr(row, field.attname) for field in fields] for row in changed}
    rows.update_each(model, values, *(field.name for field in fields))
    model.history.bulk_history_create(changed, update=True, batch_size=AT_ONCE)
