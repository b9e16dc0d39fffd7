"""Queries that are asked hundreds of times a second: Django writes their SQL once, each asking fills in values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection, models

Value = str | int
TEXT, NUMBER = "mark-of-the-value-{}", -(2**62)  # stand for values while the SQL is written; no row has them


@dataclass(frozen=True, slots=True)
class _Written:
    sql: str
    params: tuple[Any, ...]
    places: tuple[int | None, ...]  # of each parameter: which value goes there; None: it stays
    converters: dict[int, tuple[list[Any], Any]]  # of columns that the driver does not return as they are


class Prepared:
    """A query of plain columns (`values_list`) for values of these types, compared as they are."""

    def __init__(self, make: Callable[..., "models.QuerySet[Any, tuple[Any, ...]]"], *types: type) -> None:
        """Take what returns the query for such values; it is called once, with marks in their place."""
        self._make = make
        self._types = types
        self._written: dict[str, _Written] = {}  # by kind of database

    def ask(self, *values: Value) -> list[tuple[Any, ...]]:
        """Return the rows for these values."""
        written = self._written.get(connection.vendor) or self._write()
        params = [
            given if place is None else values[place]
            for given, place in zip(written.params, written.places, strict=True)
        ]
        with connection.cursor() as cursor:
            cursor.execute(written.sql, params)
            rows = cursor.fetchall()
        return [_converted(row, written.converters) for row in rows] if written.converters else rows

    def _write(self) -> _Written:
        marks = [
            TEXT.format(place) if kind is str else NUMBER + place for place, kind in enumerate(self._types)
        ]
        compiler = self._make(*marks).query.get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        columns = [column for column, _sql, _alias in compiler.select]
        places = tuple(marks.index(given) if given in marks else None for given in params)
        if {place for place in places if place is not None} != set(range(len(marks))):
            raise ValueError("a value of this query is not compared as it is")
        found = _Written(sql, tuple(params), places, compiler.get_converters(columns))
        self._written[connection.vendor] = found
        return found


def _converted(row: tuple[Any, ...], converters: dict[int, tuple[list[Any], Any]]) -> tuple[Any, ...]:
    values = list(row)
    for place, (each, expression) in converters.items():
        for convert in each:
            values[place] = convert(values[place], expression, connection)
    return tuple(values)
