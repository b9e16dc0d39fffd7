"""Who did what from where: written in the transaction of the deed, and never changed, which the database sees to."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction
from django.utils.translation import gettext_lazy as _

from cluster import clock, rows
from quotas import origin

FUNCTION = "refuse_change"  # on PostgreSQL


class AuditEntry(models.Model):
    """One deed. No keys to other rows: what is removed later stays named here."""

    at = models.DateTimeField(_("time"), db_index=True)
    deed = models.CharField(_("deed"), max_length=48)  # such as task.stop: what, and what was done to it
    actor_id = models.BigIntegerField(_("user id"), null=True)  # null: nobody who is known
    actor = models.CharField(_("user"), max_length=150, blank=True)
    kind = models.CharField(_("kind"), max_length=32, blank=True)  # of what it was done to
    target_id = models.CharField(_("id"), max_length=64, blank=True)
    target = models.CharField(_("done to"), max_length=255, blank=True)
    address = models.CharField(_("address"), max_length=45, blank=True)
    agent = models.CharField(_("browser or program"), max_length=255, blank=True)
    token_id = models.BigIntegerField(_("token id"), null=True)
    args = models.JSONField(_("details"), default=dict)

    class Meta:
        ordering = ["-id"]
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit")
        indexes = [
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["deed", "-id"], name="audit_by_deed"),
            models.Index(fields=["kind", "target_id", "-id"], name="audit_by_target"),
            models.Index(fields=["address", "-id"], name="audit_by_address"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.deed} {self.target}".strip()


def note(
    deed: str, *, by: Any, on: models.Model | None = None, name: str | None = None, **args: object
) -> None:
    """Write that `by` (a user, or None for nobody who is known) did this to the row `on`; `args` hold no secrets.

    `name` names the target where there is no row, or another than its own name is meant.
    """
    kind = on._meta.model_name or "" if on is not None else ""
    target = name if name is not None else str(on) if on is not None else ""
    key = str(on.pk) if on is not None else ""
    note_many(deed, [(key, target)], kind=kind, by=by, **args)


def note_many(
    deed: str, targets: Iterable[tuple[object, str]], *, kind: str, by: Any, **args: object
) -> None:
    """Write the same deed to many rows of a kind, each with its id and name: one statement."""
    where = origin.current()
    rows.insert(
        AuditEntry,
        [(str(key), target[:255]) for key, target in targets],
        *("target_id", "target"),
        at=clock.now(),
        deed=deed,
        actor_id=by.pk if by is not None else None,
        actor=by.get_username()[:150] if by is not None else "",
        kind=kind[:32],
        address=where.address,
        agent=where.agent,
        token_id=where.token_id,
        args=args,
    )


def of_target(target_id: str) -> models.QuerySet[AuditEntry]:
    """Return what was done to rows of this id, of whatever kind: the index of targets begins with the kind."""
    kinds = {(model._meta.model_name or "")[:32] for model in apps.get_models()}
    return AuditEntry.objects.filter(kind__in=sorted(kinds), target_id=target_id)


def protect() -> None:
    """Have the database refuse changes of what was written: after every migration, which may remake the table."""
    table = AuditEntry._meta.db_table
    with transaction.atomic(), connection.cursor() as cursor:
        if table in connection.introspection.table_names(cursor):
            for statement in _guards(table):
                cursor.execute(statement)


def _guards(table: str) -> Iterator[str]:
    said = "the audit is append-only"
    if connection.vendor == "postgresql":
        yield (
            f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{said}'; END $$"
        )
        yield (
            f"CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {FUNCTION}()"
        )
        return
    # INSERT OR REPLACE removes the older row without a word to the trigger of removals.
    there = f"WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id) "
    for name, when in (("update", ""), ("delete", ""), ("insert", there)):
        yield f"DROP TRIGGER IF EXISTS append_only_{name}"
        yield (
            f"CREATE TRIGGER append_only_{name} BEFORE {name.upper()} ON {table} {when}"
            f"BEGIN SELECT RAISE(ABORT, '{said}'); END"
        )
