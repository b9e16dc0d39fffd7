"""Encrypt stored secrets with the newest key, so that an old one can be given up; safe to repeat and break off."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import InvalidToken
from django.db import models, transaction

from cluster import vault
from cluster.models import Instance
from jobs.materials import Code, Dataset
from jobs.models import Task

SEALED: tuple[type[models.Model], ...] = (Task, Code, Dataset, Instance)  # each in its column `secrets`
BATCH = 500  # rows of one transaction


@dataclass(slots=True, kw_only=True)
class Count:
    """What was found: encrypted anew, with the newest key already, with none of the keys."""

    renewed: int = 0
    newest: int = 0
    unreadable: int = 0


def rotate(*, batch: int = BATCH, write: bool = True) -> Count:
    """Go through all secrets, so many at a time; without `write` only count what would be encrypted anew."""
    count = Count()
    for model in SEALED:
        for rows in _batches(model, batch):
            _renew(model, rows, count, write=write)
    return count


def _batches(model: type[models.Model], size: int) -> Iterator[list[tuple[Any, str]]]:
    sealed = model._default_manager.exclude(secrets="").order_by("pk").values_list("pk", "secrets")
    rows = list(sealed[:size])
    while rows:
        yield rows
        rows = list(sealed.filter(pk__gt=rows[-1][0])[:size])


def _renew(model: type[models.Model], rows: list[tuple[Any, str]], count: Count, *, write: bool) -> None:
    with transaction.atomic():
        for pk, sealed in rows:
            if vault.has_newest_key(sealed):
                count.newest += 1
                continue
            try:
                anew = vault.renewed(sealed)
            except InvalidToken:
                count.unreadable += 1
                continue
            if write:  # a row that changed since it was read was written with the newest key
                model._default_manager.filter(pk=pk, secrets=sealed).update(secrets=anew)
            count.renewed += 1
