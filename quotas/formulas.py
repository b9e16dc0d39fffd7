"""Cells of CSV that a spreadsheet would take for a formula: guarded on the way out, as they were on the way in.

A quote before it makes every spreadsheet show a cell as it is (OWASP, "CSV Injection"). What has such quotes already
gets one more, so that each cell can be told from what it was guarded to.
"""

import re
from typing import Any

# What begins so is a formula to one spreadsheet or another, with quotes before it or without.
_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")


def guarded(cell: Any) -> Any:
    """Return a cell so that none is a formula; what is no text is as it was."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def plain(cell: Any) -> Any:
    """Return what a cell was before it was guarded; one that was not is as it was."""
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and _FORMULA.match(cell) else cell
