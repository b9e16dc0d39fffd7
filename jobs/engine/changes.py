"""Marks of what changed since the last plan: left by the database itself, whoever wrote and by whatever way.

A trigger on each table that a plan is made from adds a row to `jobs_change` in the writer's own transaction.
So a pass finds a mark as soon as it can see the change, never before, and one that it has not seen stays.
"""

from collections.abc import Iterator, Mapping

from django.db import connection, models, transaction
from django.db.models import Count, F, Subquery, Value
from django.db.models.functions import Coalesce

from cluster.models import Card, CardLease, GpuType, Host
from jobs.engine import lease
from jobs.engine.patience import Bounded
from jobs.models import Attempt, Change, Claim, PassLease, Policy, Task
from quotas.models import Business, Quota, Reservation

# What a plan is made from, and the columns that no plan looks at: those are written often, or by the pass itself.
# Instances are not here: what hosts say of them reaches a plan only by what reconcile.py makes of it.
WATCHED: Mapping[type[models.Model], frozenset[str]] = {
    Attempt: frozenset(),
    Business: frozenset(),
    Card: frozenset({"fault", "memory_mib", "state_reason", "uuid"}),
    CardLease: frozenset(),
    Claim: frozenset(),
    GpuType: frozenset(),
    Host: frozenset({
        "address", "agent_boot", "agent_protocol", "agent_seq", "agent_version", "calls", "cleared_faults",
        "clock_offset_s", "last_seen_at", "machine", "seat", "state_args", "state_changed_at", "state_reason",
        "token_hash", "trouble",
    }),
    Policy: frozenset(),
    Quota: frozenset(),
    Reservation: frozenset(),
    Task: frozenset({"reason_code", "reason_args"}),
}  # fmt: skip
MARKS = Change._meta.db_table
FUNCTION = "mark_change"  # on PostgreSQL
Version = tuple[int, int]  # how often marks were taken, how many are there


def take(fence: int) -> bool:
    """Take away the marks that are there, and say whether a plan is due for them.

    That one is due is written in the same transaction: it stays due until a pass was done whole. Raises
    lease.StaleHolder, and takes nothing, where another process has the lease.
    """
    with transaction.atomic():
        marks, _ = Change.objects.filter(Bounded()).delete()
        mine = PassLease.objects.filter(pk=1, fence=fence)
        if marks and not mine.update(due_at=None, marks_taken=F("marks_taken") + 1):
            # The marks stay, for whoever has it.
            raise lease.StaleHolder(f"the pass lease {fence} was taken over")
    return bool(marks)


def version() -> Version | None:
    """Return what stays the same as long as nothing changed that a plan is made from; None: it cannot be told.

    Every change that is committed has a mark that is there, or one whose taking was counted: read before a
    snapshot, the same version later says that nothing was committed since which the snapshot could lack.
    """
    marks = Change.objects.order_by().values(one=Value(1)).annotate(n=Count("pk")).values("n")
    row = PassLease.objects.filter(pk=1).values_list("marks_taken", Coalesce(Subquery(marks), 0)).first()
    if row is None:
        return None  # no pass ever ran
    taken, there = int(row[0]), int(row[1])
    # SQLite's one mark, once it is there, tells of no further change.
    return None if there and connection.vendor == "sqlite" else (taken, there)


def watch() -> None:
    """Put the triggers on the tables as they are now, in place of earlier ones.

    After every migration: where one remakes a table, SQLite drops what was on it.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
        if MARKS not in there:
            return  # migrated to before there were marks
        for statement in _function():
            cursor.execute(statement)
        for model, unread in WATCHED.items():
            table = model._meta.db_table
            if table in there:
                found = connection.introspection.get_table_description(cursor, table)
                for statement in _triggers(
                    table, [column.name for column in found if column.name not in unread]
                ):
                    cursor.execute(statement)


def unwatch() -> None:
    """Take the triggers away, so that the table of the marks can be dropped."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"DROP FUNCTION IF EXISTS {FUNCTION}() CASCADE")
            return
        cursor.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mark\\_%' ESCAPE '\\'"
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f'DROP TRIGGER "{name}"')


def _function() -> Iterator[str]:
    if connection.vendor == "postgresql":
        # A row for each statement, never a shared one: its lock would let all writers wait for each other.
        yield (
            f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN INSERT INTO {MARKS} DEFAULT VALUES; RETURN NULL; END $$"
        )


def _triggers(table: str, columns: list[str]) -> Iterator[str]:
    read = ", ".join(f'"{column}"' for column in columns)
    if connection.vendor == "postgresql":
        yield (
            f"CREATE OR REPLACE TRIGGER mark_change "
            f'AFTER INSERT OR DELETE OR TRUNCATE OR UPDATE OF {read} ON "{table}" '
            f"FOR EACH STATEMENT EXECUTE FUNCTION {FUNCTION}()"
        )
        return
    # SQLite has no triggers for statements, and one writer at a time: one mark is enough.
    mark = f"INSERT INTO {MARKS} (id) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM {MARKS})"
    for name, event in (("insert", "INSERT"), ("delete", "DELETE"), ("update", f"UPDATE OF {read}")):
        yield f'DROP TRIGGER IF EXISTS "mark_{name}_{table}"'
        yield f'CREATE TRIGGER "mark_{name}_{table}" AFTER {event} ON "{table}" BEGIN {mark}; END'
