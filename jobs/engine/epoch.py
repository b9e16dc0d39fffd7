"""Read a date as seconds since the epoch, computed by the database: parsing it in Python costs more."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import FloatField, Func
from django.db.models.sql.compiler import SQLCompiler


class Epoch(Func):
    """Seconds since 1970 of a date column, as a float; null stays null."""

    output_field = FloatField()
    arity = 1

    def get_db_converters(self, connection: BaseDatabaseWrapper) -> list[Any]:
        """Take the database's float as it is: Django would call a converter for each of them."""
        return []

    def as_postgresql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, list[Any]]:
        """Ask PostgreSQL."""
        sql, params = self.as_sql(
            compiler, connection, template="extract(epoch from %(expressions)s)::double precision", **context
        )
        return sql, list(params)

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any
    ) -> tuple[str, tuple[str | int, ...]]:
        """Ask SQLite, whose Julian days are exact to a tenth of a millisecond."""
        sql, params = self.as_sql(
            compiler, connection, template="((julianday(%(expressions)s) - 2440587.5) * 86400.0)", **context
        )
        return sql, tuple(params)
