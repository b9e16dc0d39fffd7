"""Change many rows in one statement, each to its own values."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.db import connection, models


def update_each(model: type[models.Model], values: Mapping[int, Sequence[Any]], *names: str) -> None:
    """Set the fields `names` of the rows whose primary keys `values` names, in that order.

    One statement on PostgreSQL (a join with arrays), one prepared statement run per row on SQLite:
    `bulk_update`, which writes a CASE per field, takes ten times as long.
    """
    if not values:
        return
    fields = [cast("models.Field[Any, Any]", model._meta.get_field(name)) for name in names]
    rows = [
        (
            *(field.get_db_prep_save(value, connection) for field, value in zip(fields, row, strict=True)),
            key,
        )
        for key, row in values.items()
    ]
    quote = connection.ops.quote_name
    table = quote(model._meta.db_table)
    columns = [quote(str(field.column)) for field in fields]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            kinds = [*(str(field.cast_db_type(connection)) for field in fields), "bigint"]
            arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
            given = ", ".join(f"v{number}" for number in range(len(columns)))
            sets = ", ".join(f"{column} = v{number}" for number, column in enumerate(columns))
            sql = f"UPDATE {table} SET {sets} FROM unnest({arrays}) AS v ({given}, key) WHERE id = key"
            cursor.execute(sql, [list(column) for column in zip(*rows, strict=True)])
        else:
            sets = ", ".join(f"{column} = %s" for column in columns)
            cursor.executemany(f"UPDATE {table} SET {sets} WHERE id = %s", rows)
