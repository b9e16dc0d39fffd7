"""What the command shows: tables for people, JSON for scripts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
COLOURS = {
    "running": "green",
    "succeeded": "green",
    "keeping": "magenta",
    "failed": "red",
    "evicted": "yellow",
    "evicting": "yellow",
    "queued": "blue",
    "starting": "cyan",
}


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows below their heads; nothing that a platform says is taken for markup."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        shown.add_column(head, overflow="fold")
    for row in rows:
        shown.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    out.print(shown, soft_wrap=False)


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values below each other; what is None or blank is left out."""
    there = [(name, value) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in there), default=0)
    for name, value in there:
        out.print(
            Text(f"{name:>{width}}  ", style="dim").append_text(
                value if isinstance(value, Text) else Text(str(value))
            )
        )


def line(text: str) -> None:
    """Print a line as it is."""
    out.print(Text(text))


def state(name: str) -> Text:
    """Return the state of a task in its colour."""
    return Text(name, style=COLOURS.get(name, ""))


def moment(text: str | None) -> str:
    """Return a time of the platform in the time zone of this machine."""
    if not text:
        return ""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ago(text: str | None) -> str:
    """Return how long ago a time was, in one unit."""
    if not text:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def range_of(free: Mapping[str, Any]) -> str:
    """Return free cards as the range that is told."""
    if free["high"] is None:
        return f"{free['low']}+"
    return str(free["low"]) if free["low"] == free["high"] else f"{free['low']}-{free['high']}"
