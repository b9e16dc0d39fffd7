"""Plots, each with the table that it is drawn from: templates/includes/plot.html shows one."""

from dataclasses import dataclass
from typing import Literal

from django.utils.functional import Promise

Word = str | Promise


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table; `line`: the number of the colour in which it is drawn, 0: not at all."""

    word: Word
    line: int = 0
    filled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of one moment, in words and, where those are rounded, as they are drawn."""

    at: float  # seconds since the epoch, or since the beginning
    said: str
    cells: list[tuple[str, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot; `elapsed`: its times are counted from a beginning, else they are of the reader's clocks."""

    label: Word
    head: Word  # of the times
    columns: list[Column]
    rows: list[Row]
    kind: Literal["line", "bars"] = "line"
    unit: str = ""
    elapsed: bool = False
    top: float | None = None  # so that two plots have one scale
