"""Known code and data that no task needs any more: found and removed when an operator says so."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from jobs import uploads
from jobs.materials import Code, Dataset, Source
from jobs.models import Task, Template
from jobs.states import TERMINAL
from quotas import audit

# By model: the column of tasks that points to it, and the field of a document that names it by number.
NAMES: dict[type[Source], tuple[str, str]] = {Code: ("code", "model_id"), Dataset: ("dataset", "dataset_id")}


def remove(chosen: QuerySet[Any], now: datetime, *, by: User) -> tuple[int, int]:
    """Remove those of the chosen Code or Dataset that nothing needs; return how many went and how many stayed.

    Needed is what a task has that is not over, or ended within UPLOAD_KEEP_DAYS: it may be run or copied; and what
    a template names. An older task forgets it: a copy of one brings it again from its config, unless that names it
    by its number or by an upload that is gone, which its owner is then told.
    """
    rows = list(chosen)
    needed = _needed(chosen.model, now)
    gone = sum(_removed(row, by) for row in rows if row.pk not in needed)
    if gone and chosen.model is Code:
        uploads.collect(now)  # the bytes of those that were uploaded, where nobody else needs them
    return gone, len(rows) - gone


def _needed(model: type[Source], now: datetime) -> set[int]:
    column, field = NAMES[model]
    before = now - timedelta(days=settings.UPLOAD_KEEP_DAYS)
    tasks = Task.objects.exclude(Q(state__in=TERMINAL) & Q(ended_at__lt=before)).exclude(**{column: None})
    return set(tasks.values_list(f"{column}_id", flat=True).distinct()) | set(_numbers(field))


def _numbers(field: str) -> Iterable[int]:
    """Return the numbers that templates name in this field."""
    for config in Template.objects.values_list("config", flat=True):
        written = str(config.get(field, "")) if isinstance(config, dict) else ""
        if written.isascii() and written.isdigit():
            yield int(written)


def _removed(row: Source, by: User) -> bool:
    """Remove a row, and return whether it is gone: a task that came in this instant may have named it."""
    column, _field = NAMES[type(row)]
    try:
        with transaction.atomic():
            Task.objects.filter(**{column: row.pk}, state__in=TERMINAL).update(**{column: None})
            if Task.objects.filter(**{column: row.pk}).exists():
                raise IntegrityError
            audit.note(f"{row._meta.model_name}.removed", by=by, on=row)
            row.delete()
    except IntegrityError:
        return False
    return True
