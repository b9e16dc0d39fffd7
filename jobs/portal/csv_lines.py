"""Lines of CSV, for spreadsheets that take what begins like a formula for one."""

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
BOM = "\ufeff"  # tells Excel that the file is UTF-8


def lines(rows: Iterable[Iterable[Any]]) -> str:
    """Return the rows as text."""
    file = io.StringIO()
    writer = csv.writer(file)
    for row in rows:
        writer.writerow([_harmless(cell) for cell in row])
    return file.getvalue()


def time(at: datetime | None) -> str:
    """Return a time as programs read it; blank for none."""
    return at.astimezone(UTC).isoformat(timespec="seconds") if at else ""


def _harmless(cell: Any) -> Any:
    """Let no text begin like a formula: a quote before it makes every spreadsheet show it as it is."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
