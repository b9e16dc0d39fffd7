"""How long PostgreSQL lets a transaction of a pass stand still or wait for a lock, said in its first statement."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Func
from django.db.models.sql.compiler import SQLCompiler

# Whoever is stopped within a transaction keeps its locks: after so long PostgreSQL ends his session, and them.
STALLED_S = 20.0
LOCK_S = 45.0  # a wait for a lock is broken off after this: longer than that of one who is ended so


class Bounded(Func):
    """A condition that is always true, and sets both times for the rest of the transaction; nothing on SQLite.

    Set for the transaction alone, so that it is right behind a pooler too, and by the statement that takes the
    first lock, which it would cost one more to say before.
    """

    output_field = BooleanField()
    arity = 0

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, list[Any]]:
        """Ask PostgreSQL, whose rows are found, and this with them, before they are locked."""
        times = {"idle_in_transaction_session_timeout": STALLED_S, "lock_timeout": LOCK_S}
        said = [f"set_config('{name}', '{round(s * 1000)}', true) IS NOT NULL" for name, s in times.items()]
        sql, params = self.as_sql(compiler, connection, template=f"({' AND '.join(said)})", **context)
        return sql, list(params)

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, tuple[str | int, ...]]:
        """Say nothing: there a writer waits for `timeout` of its options at most."""
        sql, params = self.as_sql(compiler, connection, template="(1 = 1)", **context)
        return sql, tuple(params)
