"""Which tasks have a text in their name, found by an index of three-letter pieces on PostgreSQL.

Lists are right without it, as on SQLite: they then look at the names of so many tasks, page by page. The names are
kept beside the tasks, since an index of pieces on the tasks themselves would be written at each move of each.
"""

import logging
import re

from django.db import DatabaseError, connection, transaction

from jobs.models import Task

log = logging.getLogger(__name__)
NAMES = "jobs_task_name"
PIECE = r"[^\W_]{3}"  # what the index knows: three letters or digits in a row
_pieces: dict[str, re.Pattern[str]] = {}  # by database, of those whose index was seen


def ids(text: str, most: int) -> list[int] | None:
    """Return ids of tasks with `text` in their names, `most` of them at most; None where that is not indexed."""
    piece = _piece()
    if piece is None or not piece.search(text):
        return None
    pattern = f"%{connection.ops.prep_for_like_query(text)}%"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {NAMES} WHERE name LIKE UPPER(%s) LIMIT %s", [pattern, most])
        return [pk for (pk,) in cursor.fetchall()]


def _piece() -> "re.Pattern[str] | None":
    """Return what a text needs to be found by the index; None where there is no index, which may still come."""
    if connection.vendor == "postgresql" and connection.alias not in _pieces and (found := _look()):
        _pieces[connection.alias] = found
    return _pieces.get(connection.alias)


def _look() -> "re.Pattern[str] | None":
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT to_regclass(%s) IS NOT NULL, datctype IN ('C', 'POSIX') FROM pg_database "
            "WHERE datname = current_database()",
            [NAMES],
        )
        there, plain = cursor.fetchone()
    # A database without a language knows only the letters of ASCII.
    return re.compile(PIECE, re.ASCII if plain else 0) if there else None


def prepare() -> None:
    """Make the index where the database can: after every migration, since an extension may come later."""
    tasks = Task._meta.db_table
    if connection.vendor != "postgresql" or tasks not in connection.introspection.table_names():
        return
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except DatabaseError as error:
        log.warning("names of tasks are searched without an index, for want of pg_trgm: %s", error)
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [NAMES])
        if cursor.fetchone()[0] is None:
            for statement in _statements(tasks):
                cursor.execute(statement)
    _pieces.clear()


def _statements(tasks: str) -> tuple[str, ...]:
    """Return what makes the table of names, keeps it, and fills it; names of tasks never change."""
    return (
        f"LOCK TABLE {tasks} IN SHARE ROW EXCLUSIVE MODE",  # no task comes in between
        f"CREATE TABLE {NAMES} (id bigint PRIMARY KEY, name text NOT NULL)",
        f"INSERT INTO {NAMES} SELECT id, UPPER(task_flag) FROM {tasks}",
        f"CREATE INDEX {NAMES}_pieces ON {NAMES} USING gin (name gin_trgm_ops)",
        "CREATE OR REPLACE FUNCTION keep_task_name() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"INSERT INTO {NAMES} SELECT id, UPPER(task_flag) FROM came "
        "ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name; RETURN NULL; END $$",
        f"CREATE OR REPLACE TRIGGER keep_task_name AFTER INSERT ON {tasks} REFERENCING NEW TABLE AS came "
        "FOR EACH STATEMENT EXECUTE FUNCTION keep_task_name()",
    )
