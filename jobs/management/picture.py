"""Draws the course of a simulation: cards in use by class, tasks that wait, evictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.simulation.timeline import LONGER, Timeline

if TYPE_CHECKING:  # matplotlib is an extra
    from matplotlib.axes import Axes

UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
KINDS = (".svg", ".png")
HIGH, ELASTIC, WAITING, EVICTED, INK = "#1c5d99", "#7fc8b8", "#8a8d93", "#d1495b", "#333333"
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.axisbelow": True,
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.alpha": 0.35,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: small files, and they can be searched
    "svg.hashsalt": "taiji",  # the same picture is the same file
}


def refuse_early(path: Path) -> None:
    """Raise ValueError, before anything was simulated, where no picture could be drawn there."""
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"--plot writes {' or '.join(KINDS)} files, and {path} is neither")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--plot: there is no folder {path.absolute().parent}")
    try:
        import matplotlib  # noqa: F401  # asked only whether it is there
    except ImportError as error:
        command = ".venv/bin/python -m pip install -r requirements-plot.txt"
        raise ValueError(f"--plot needs matplotlib, which is not installed: {command}") from error


def draw(course: Timeline, path: Path, title: str) -> None:
    """Draw the course into a file, SVG or PNG by its name; OSError where it cannot be written."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9, 7), layout="constrained")
        cards, waiting, evicted = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.4, 1))
        figure.suptitle(title, fontsize="large", fontweight="bold", color=INK)
        unit, name = unit_of(course.span * len(course.high))
        edges = [course.span * number / unit for number in range(len(course.high) + 1)]
        _cards(cards, course, edges)
        waiting.stairs(course.waiting, edges, fill=True, color=WAITING)
        waiting.set(title="Tasks that wait", ylabel="tasks", ylim=(0, None))
        longer = [*edges[:-1:LONGER], edges[-1]]
        evicted.stairs(course.evictions, longer, fill=True, color=EVICTED)
        evicted.set(
            title=f"Evictions in each {length(course.span * LONGER)}", ylabel="evictions", ylim=(0, None)
        )
        evicted.set(xlabel=f"{name}s since the first submission", xlim=(0, edges[-1]))
        evicted.yaxis.get_major_locator().set_params(integer=True)
        figure.align_ylabels()
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def unit_of(seconds: float) -> tuple[int, str]:
    """Return the unit in which a length of time is a small number: its seconds, and its name for one of it."""
    return next(((unit, name) for unit, name in UNITS if seconds >= 2 * unit), UNITS[-1])


def length(seconds: float) -> str:
    """Return a length of time in words, rounded to three digits."""
    unit, name = unit_of(seconds)
    number = f"{seconds / unit:.3g}"
    return f"{number} {name}" if number == "1" else f"{number} {name}s"


def _cards(axes: "Axes", course: Timeline, edges: list[float]) -> None:
    """Stack what high and elastic tasks hold below the line of all cards."""
    both = [high + elastic for high, elastic in zip(course.high, course.elastic, strict=True)]
    axes.stairs(course.high, edges, fill=True, color=HIGH, label="high")
    axes.stairs(both, edges, baseline=course.high, fill=True, color=ELASTIC, label="elastic")
    axes.axhline(course.capacity, color=INK, linewidth=1.2, linestyle="--", label="all cards")
    axes.set(title="Cards in use", ylabel="cards", ylim=(0, course.capacity * 1.05 or 1))
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)
