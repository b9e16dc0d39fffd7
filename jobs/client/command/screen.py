"""What the command shows: tables for people, JSON for scripts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.client.command.words import say

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
SHORT = 20  # cells; a column that is wider may be cut where there is little room
GAP = 2  # cells between two columns
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


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, spare: Sequence[str] = ()) -> None:
    """Print rows below their heads; nothing that a platform says is taken for markup.

    Where `spare` is given each row is one line: on a narrow screen these columns are left out, as many as it
    takes and the first ones first, and then the longest are cut.
    """
    lines = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    widths = {
        head: max(cell_len(say(head)), *(line[place].cell_len for line in lines), 0)
        for place, head in enumerate(heads)
    }
    shown = Table(box=None, pad_edge=False, header_style="bold")
    fits = _fitting(widths, spare) if spare else dict.fromkeys(heads)
    for head, width in fits.items():
        shown.add_column(
            say(head), overflow="ellipsis" if spare else "fold", no_wrap=bool(spare), width=width
        )
    for line in lines:
        shown.add_row(*(cell for head, cell in zip(heads, line, strict=True) if head in fits))
    out.print(shown, soft_wrap=False)


def _fitting(widths: Mapping[str, int], spare: Sequence[str]) -> dict[str, int | None]:
    """Return the columns that there is room for, and the width of each."""
    fits = dict(widths)
    for head in spare:
        if sum(min(width, SHORT) + GAP for width in fits.values()) - GAP <= out.width:
            break
        del fits[head]
    while (over := sum(fits.values()) + GAP * (len(fits) - 1) - out.width) > 0:
        longest = max(fits, key=lambda head: fits[head])
        if fits[longest] <= SHORT:
            break  # it is the terminal that is too narrow
        fits[longest] = max(SHORT, fits[longest] - over)
    return dict(fits)


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values below each other; what is None or blank is left out."""
    there = [(say(name), value) for name, value in pairs if value not in (None, "")]
    width = max((cell_len(name) for name, _ in there), default=0)
    for name, value in there:
        out.print(
            Text(f"{' ' * (width - cell_len(name))}{name}  ", style="dim").append_text(
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
    for words, length in (("%(number)d d", 86400), ("%(number)d h", 3600), ("%(number)d min", 60)):
        if seconds >= length:
            return say(words) % {"number": seconds // length}
    return say("%(number)d s") % {"number": max(0, round(seconds))}


def place_of(place: int | None, of: int | None) -> str | None:
    """Return a place in a line of so many; None for none."""
    return say("%(value)s of %(of)s") % {"value": place, "of": of} if place else None


def range_of(free: Mapping[str, Any]) -> str:
    """Return free cards as the range that is told."""
    if free["high"] is None:
        return f"{free['low']}+"
    return str(free["low"]) if free["low"] == free["high"] else f"{free['low']}-{free['high']}"
