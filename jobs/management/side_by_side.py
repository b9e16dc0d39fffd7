"""Simulations of the same work, figure by figure beside each other."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Say = Callable[[Mapping[str, Any]], str]


def lines(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Give a table with a column for each report, under its name, as lines of text."""
    found = list(reports.values())
    table = [["", *reports]]
    for task_class in found[0]["by_class"]:
        parts = [report["by_class"][task_class] for report in found]
        for name, say in OF_CLASS.items():
            table.append([f"{task_class}: {name}", *map(say, parts)])
    for name, say in OF_ALL.items():
        table.append([name, *(say(report["summary"]) for report in found)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([f"{first:<{widths[0]}}", *cells])


def duration(seconds: float | None) -> str:
    """Return a length of time in words; a dash where there is none."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


OF_CLASS: dict[str, Say] = {
    "tasks finished": lambda part: f"{part['finished']} of {part['tasks']}",
    "half wait no longer than": lambda part: duration(part["p50_wait_s"]),
    "95 % wait no longer than": lambda part: duration(part["p95_wait_s"]),
    "evictions": lambda part: f"{part['evictions']:,}",
}
OF_ALL: dict[str, Say] = {
    "card-hours lost": lambda part: f"{part['lost_card_s'] / 3600:,.1f}",
    "cards in use": lambda part: f"{part['card_utilisation']:.1%}",
    "all done after": lambda part: duration(part["makespan_s"]),
}
