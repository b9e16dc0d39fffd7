"""Insert or change many rows in one statement.

Django's `bulk_create` and `bulk_update` write a literal per field and row (a CASE per field in the second):
on thousands of rows that takes several times as long as one statement over arrays.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from django.db import connection, models


def insert(model: type[models.Model], rows: Sequence[Sequence[Any]], *names: str, **constants: Any) -> None:
    """Insert a row of the fields `names` for each of `rows`, all with the same `constants`.

    Nothing is filled in by itself: every column without a default of the database has to be named.
    """
    if not rows:
        return
    fields, fixed = _fields(model, names), _fields(model, constants)
    columns = ", ".join(_quoted(field.column) for field in [*fields, *fixed])
    values = [_prepared(field, [value])[0] for field, value in zip(fixed, constants.values(), strict=True)]
    into = f"INSERT INTO {_quoted(model._meta.db_table)} ({columns})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            given = ", ".join(f"v{number}" for number in range(len(fields)))
            same = "".join(f", {_cast(field)}" for field in fixed)
            arrays = ", ".join(f"{_cast(field, array=True)}" for field in fields)
            sql = f"{into} SELECT {given}{same} FROM unnest({arrays}) AS v ({given})"
            cursor.execute(sql, [*values, *_columns(fields, rows)])
        else:
            marks = ", ".join(["%s"] * (len(fields) + len(fixed)))
            lines = zip(*_columns(fields, rows), strict=True)
            cursor.executemany(f"{into} VALUES ({marks})", [(*line, *values) for line in lines])


def update_each(model: type[models.Model], values: Mapping[int, Sequence[Any]], *names: str) -> None:
    """Set the fields `names` of the rows whose primary keys `values` names, in that order."""
    if not values:
        return
    fields = _fields(model, names)
    columns = [_quoted(field.column) for field in fields]
    arrays = [*_columns(fields, list(values.values())), list(values)]
    update = f"UPDATE {_quoted(model._meta.db_table)} SET"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            given = ", ".join(f"v{number}" for number in range(len(fields)))
            sets = ", ".join(f"{column} = v{number}" for number, column in enumerate(columns))
            source = ", ".join([*(_cast(field, array=True) for field in fields), "%s::bigint[]"])
            cursor.execute(
                f"{update} {sets} FROM unnest({source}) AS v ({given}, key) WHERE id = key", arrays
            )
        else:
            sets = ", ".join(f"{column} = %s" for column in columns)
            cursor.executemany(f"{update} {sets} WHERE id = %s", list(zip(*arrays, strict=True)))


def _fields(model: type[models.Model], names: Sequence[str] | Mapping[str, Any]) -> list[Any]:
    return [cast("models.Field[Any, Any]", model._meta.get_field(name)) for name in names]


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _cast(field: Any, *, array: bool = False) -> str:
    """Return the placeholder of a field's value, or of an array of them, on PostgreSQL."""
    kind = field.rel_db_type(connection) if field.is_relation else field.cast_db_type(connection)
    brackets = "[]" if array else ""
    return f"%s::text{brackets}::jsonb{brackets}" if _is_json(field) else f"%s::{kind}{brackets}"


def _is_json(field: Any) -> bool:
    return isinstance(field, models.JSONField)


def _columns(fields: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Turn rows into one list of database values per field."""
    return [_prepared(field, column) for field, column in zip(fields, zip(*rows, strict=True), strict=True)]


def _prepared(field: Any, column: Sequence[Any]) -> list[Any]:
    if _is_json(field):
        return [json.dumps(value, ensure_ascii=False) for value in column]
    if connection.vendor == "postgresql":
        return list(column)  # its driver takes ids, texts, dates and UUIDs as they are
    prepare: Callable[..., Any] = field.get_db_prep_save
    return [prepare(value, connection) for value in column]
