"""The ids of tasks that were submitted before and after a moment: ids follow those times, so no index is needed."""

from datetime import datetime

from django.db import connection

from jobs.models import Task

# Two tasks that are submitted at once may get their ids and their times in a different order.
SLACK = 1000  # ids


def ids_from(moment: datetime) -> int:
    """Return an id below which no task was submitted at or after the moment."""
    return max(0, _edge(moment) - SLACK)


def ids_to(moment: datetime) -> int:
    """Return an id from which on no task was submitted before the moment."""
    return _edge(moment) + SLACK


def _edge(moment: datetime) -> int:
    """Return the least id from which on tasks are of the moment or later, found by halving in one statement."""
    table = connection.ops.quote_name(Task._meta.db_table)
    middle = "(low + high) / 2"
    earlier = f"(SELECT submitted_at FROM {table} WHERE id >= {middle} ORDER BY id LIMIT 1) < %s"
    given = connection.ops.adapt_datetimefield_value(moment)
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE half(low, high) AS ("
            f"SELECT CAST(0 AS bigint), CAST(COALESCE(MAX(id), 0) + 1 AS bigint) FROM {table} UNION ALL "
            f"SELECT CASE WHEN {earlier} THEN {middle} + 1 ELSE low END, "
            f"CASE WHEN {earlier} THEN high ELSE {middle} END FROM half WHERE low < high"
            ") SELECT MAX(low) FROM half",
            [given, given],
        )
        (found,) = cursor.fetchone()
    return int(found)
