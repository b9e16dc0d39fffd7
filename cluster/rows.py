"""Insert, change or keep many rows in one statement.

Django's `bulk_create` and `bulk_update` write a literal per field and row (a CASE per field in the second).
On PostgreSQL the rows go over as one JSON text, which the driver quotes once and the database takes apart:
on thousands of rows that takes a fraction of the time, also of the time that arrays would take.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from django.db import connection, models
from django.db.models.expressions import RawSQL

Field = Any  # models.Field, whose type parameters say nothing here
Where = Mapping[str, Collection[str]]  # field → the texts of which a row has one
EACH = "jsonb_array_elements(%s::jsonb) AS each_row(row)"
EACH_IN_ORDER = "jsonb_array_elements(%s::jsonb) WITH ORDINALITY AS each_row(row, place)"


def among(keys: Iterable[int]) -> RawSQL:
    """Return what `pk__in` takes in place of the keys: one parameter, so that many make no long statement."""
    if connection.vendor == "postgresql":
        return RawSQL("SELECT unnest(%s::bigint[])", [_array(keys)])
    return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(list(keys))])


def keep(model: type[models.Model], keys: Iterable[int]) -> set[int]:
    """Keep rows from being removed until the caller's transaction ends, as a key to them would; return those there are.

    Of a list of ids, which is no key: it costs one query, and whoever does the same meanwhile does not wait.
    """
    table, asked = _quoted(model._meta.db_table), sorted(set(keys))
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            sql = f"SELECT id FROM {table} WHERE id = ANY(%s::bigint[]) ORDER BY id FOR KEY SHARE"
            cursor.execute(sql, [_array(asked)])
        else:  # on SQLite nobody else writes until the transaction ends
            cursor.execute(
                f"SELECT id FROM {table} WHERE id IN (SELECT value FROM json_each(%s))", [json.dumps(asked)]
            )
        return {key for (key,) in cursor.fetchall()}


def insert(model: type[models.Model], rows: Sequence[Sequence[Any]], *names: str, **constants: Any) -> None:
    """Insert a row of the fields `names` for each of `rows`, all with the same `constants`.

    Nothing is filled in by itself: every column without a default of the database has to be named.
    """
    _insert(model, rows, names, constants)


def insert_keyed(
    model: type[models.Model], rows: Sequence[Sequence[Any]], by: str, *names: str, **constants: Any
) -> dict[Any, Any]:
    """Insert as `insert` does; return the primary keys that the database gave, by the values of the field `by`."""
    (field,) = _fields(model, [by])
    return dict(_insert(model, rows, names, constants, tail=f" RETURNING {_quoted(field.column)}, id"))


def insert_in_order(
    model: type[models.Model], rows: Sequence[Sequence[Any]], *names: str, **constants: Any
) -> list[int]:
    """Insert as `insert` does; return the primary keys that the database gave, in the order of the rows."""
    # Both databases count them up in the order that the SELECT has, so the order of the keys is that of the rows.
    found = _insert(model, rows, names, constants, order=True, tail=" RETURNING id")
    return sorted(key for (key,) in found)


def insert_new(model: type[models.Model], rows: Sequence[Sequence[Any]], *names: str) -> None:
    """Insert as `insert` does, those apart that the database refuses as being there already."""
    _insert(model, rows, names, {}, tail=" ON CONFLICT DO NOTHING")


@dataclass(frozen=True, slots=True)
class _Insertion:
    """An INSERT as it was written once: its fields, and those that are the same in all rows."""

    fields: list[Field]
    fixed: list[Field]
    sql: str  # of many rows as one parameter
    each: str  # of one row


def _insert(
    model: type[models.Model],
    rows: Sequence[Sequence[Any]],
    names: tuple[str, ...],
    constants: Mapping[str, Any],
    order: bool = False,
    tail: str = "",
) -> list[Any]:
    if not rows:
        return []
    written = _insertion(connection.vendor, model, names, tuple(constants), order, tail)
    same = _line(written.fixed, list(constants.values()))
    returns = "RETURNING" in tail
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(written.sql, [*same, _text(rows)])
        else:
            lines = [(*_line(written.fields, row), *same) for row in rows]
            if not returns:
                cursor.executemany(written.each, lines)
                return []
            # SQLite gives nothing back where one statement is executed for many.
            cursor.execute(written.sql, [json.dumps(lines)])
        return cursor.fetchall() if returns else []


@cache
def _insertion(
    vendor: str,
    model: type[models.Model],
    names: tuple[str, ...],
    constants: tuple[str, ...],
    order: bool,
    tail: str,
) -> _Insertion:
    fields, fixed = _fields(model, names), _fields(model, constants)
    columns = ", ".join(_quoted(field.column) for field in [*fields, *fixed])
    into = f"INSERT INTO {_quoted(model._meta.db_table)} ({columns})"
    if vendor == "postgresql":
        parts = ", ".join([*_parts(fields), *(f"%s::{_kind(field)}" for field in fixed)])
        source = f"{EACH_IN_ORDER} ORDER BY place" if order else EACH
    else:
        parts = ", ".join(f"json_extract(value, '$[{number}]')" for number in range(len(fields) + len(fixed)))
        source = "json_each(%s) ORDER BY key" if order else "json_each(%s)"
    marks = ", ".join(["%s"] * (len(fields) + len(fixed)))
    return _Insertion(
        fields, fixed, f"{into} SELECT {parts} FROM {source}{tail}", f"{into} VALUES ({marks}){tail}"
    )


def update(model: type[models.Model], keys: Iterable[int], where: Where, **values: Any) -> set[int]:
    """Set the same `values` in all rows with these primary keys; return the keys of those that were changed.

    Only of rows that have, in each field of `where`, one of its texts.
    """
    keys = list(keys)
    if not keys:
        return set()
    if connection.vendor != "postgresql":
        found = _found(model, keys, where)
        model._default_manager.filter(pk__in=among(found)).update(**values)
        return found
    fields = _fields(model, values)
    sets = ", ".join(f"{_quoted(field.column)} = %s" for field in fields)
    given = [*_line(fields, list(values.values())), _array(keys)]
    return _change(model, f"SET {sets} WHERE id = ANY(%s::bigint[])", given, where)


def update_locked(found: models.QuerySet[Any], asked: str, **values: Any) -> list[Any]:
    """Lock the rows that are found, in the order of their keys, and set the same `values` in all of them.

    Two who lock some of the same rows, each in an order of its own, would wait for each other. Returns the
    field `asked` of each row. Runs in the caller's transaction.
    """
    model = found.model
    locked = found.select_for_update().order_by("pk")
    (field,) = _fields(model, [asked])
    if connection.vendor != "postgresql":
        keys = dict(locked.values_list("pk", field.attname))
        model._default_manager.filter(pk__in=list(keys)).update(**values)
        return list(keys.values())
    fields = _fields(model, values)
    table = _quoted(model._meta.db_table)
    sets = ", ".join(f"{_quoted(field.column)} = %s" for field in fields)
    chosen, given = locked.values("pk").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET {sets} WHERE id = ANY(ARRAY({chosen})) RETURNING {_quoted(field.column)}",
            [*_line(fields, list(values.values())), *given],
        )
        return [value for (value,) in cursor.fetchall()]


def update_each(
    model: type[models.Model], values: Mapping[int, Sequence[Any]], *names: str, where: Where | None = None
) -> set[int]:
    """Set the fields `names` of the rows whose primary keys `values` names, in that order.

    `where` and what is returned are those of `update`.
    """
    if not values:
        return set()
    fields = _fields(model, names)
    columns = [_quoted(field.column) for field in fields]
    if connection.vendor == "postgresql":
        sets = ", ".join(f"{column} = v{number}" for number, column in enumerate(columns))
        parts = ", ".join(f"{part} AS v{number}" for number, part in enumerate(_parts(fields)))
        key = f"(row ->> {len(fields)})::bigint AS key"
        text = _text([(*row, key) for key, row in values.items()])
        # How many rows a JSON text holds PostgreSQL cannot know: for the keys alone it takes the index.
        chosen = "id = key AND id = ANY(%s::bigint[])"
        change = f"SET {sets} FROM (SELECT {parts}, {key} FROM {EACH}) AS given WHERE {chosen}"
        return _change(model, change, [text, _array(values)], where or {})
    found = _found(model, values, where or {})
    sets = ", ".join(f"{column} = %s" for column in columns)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {_quoted(model._meta.db_table)} SET {sets} WHERE id = %s",
            [(*_line(fields, values[key]), key) for key in sorted(found)],
        )
    return found


def _change(model: type[models.Model], change: str, given: list[Any], where: Where) -> set[int]:
    """Let PostgreSQL change rows and say which."""
    chosen = "".join(f" AND {_quoted(field.column)} = ANY(%s)" for field in _fields(model, where))
    texts = [[str(text) for text in one] for one in where.values()]
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {_quoted(model._meta.db_table)} {change}{chosen} RETURNING id", [*given, *texts]
        )
        return {key for (key,) in cursor.fetchall()}


def _found(model: type[models.Model], keys: Iterable[int], where: Where) -> set[int]:
    """Return which rows an update would change; on SQLite nobody else writes until the transaction ends."""
    chosen = {f"{name}__in": list(texts) for name, texts in where.items()}
    return set(model._default_manager.filter(pk__in=among(keys), **chosen).values_list("pk", flat=True))


def _parts(fields: Sequence[Field]) -> list[str]:
    """Return how PostgreSQL reads each field from a row of the JSON text."""
    return [
        f"row -> {number}" if isinstance(field, models.JSONField) else f"(row ->> {number})::{_kind(field)}"
        for number, field in enumerate(fields)
    ]


def _text(rows: Sequence[Sequence[Any]]) -> str:
    # Dates and UUIDs are read back from their texts.
    return json.dumps(rows, ensure_ascii=False, default=str, check_circular=False)


def _array(keys: Iterable[int]) -> str:
    """Return the keys as PostgreSQL reads an array, which the driver would write key by key."""
    return "{" + ",".join(map(str, keys)) + "}"


def _fields(model: type[models.Model], names: Iterable[str]) -> list[Field]:
    return [cast("models.Field[Any, Any]", model._meta.get_field(name)) for name in names]


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


def _kind(field: Field) -> str:
    """Return the type of a field's column on PostgreSQL."""
    return str(field.rel_db_type(connection) if field.is_relation else field.cast_db_type(connection))


def _line(fields: Sequence[Field], row: Sequence[Any]) -> list[Any]:
    """Return the values of a row as the database's driver takes them."""
    return [field.get_db_prep_save(value, connection) for field, value in zip(fields, row, strict=True)]
