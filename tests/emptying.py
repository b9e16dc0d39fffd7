"""Tables are empty again after a test that commits: those it wrote to alone, a hundredth of the work of a flush."""

from django.apps import apps
from django.db import connection, transaction

from quotas import audit

# What a migration writes anew after every flush, so that it may as well stay.
KEPT = frozenset({"django_content_type", "auth_permission"})


def empty() -> None:
    """Empty every table with a row in it; a table that a trigger fills meanwhile has its turn in the next round."""
    while tables := written():
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                # No trigger, the audit's guard among them, and keys may be checked in any order.
                cursor.execute("SET LOCAL session_replication_role = replica")
            else:
                lift_guard()
            for table in tables:
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
            if connection.vendor == "sqlite":
                audit.protect()


def written() -> list[str]:
    """Return the tables that have rows."""
    models = [model._meta for model in apps.get_models(include_auto_created=True)]
    tables = {meta.db_table for meta in models if meta.managed and not meta.proxy} - KEPT
    asked = [
        f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {connection.ops.quote_name(table)})"
        for table in sorted(tables)
    ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(asked))
        return [table for (table,) in cursor.fetchall()]


def lift_guard() -> None:
    """Let the audit be changed, until `audit.protect()` guards it again."""
    table = audit.AuditEntry._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"DROP TRIGGER IF EXISTS append_only ON {table}")
            return
        for name in ("update", "delete", "insert"):
            cursor.execute(f"DROP TRIGGER IF EXISTS append_only_{name}")
