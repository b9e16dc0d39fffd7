"""Simulate the scheduler over files: what `manage.py simulate` and `taiji sim` have in common."""

import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jobs.management import picture, progress, tables
from jobs.management.options import PAIRS, add_always, add_invented, add_recorded
from jobs.scheduling import policy as policies
from jobs.simulation.figures import report
from jobs.simulation.job import Setup
from jobs.simulation.simulate import Simulator
from jobs.simulation.timeline import timeline
from jobs.simulation.workload import CLASSES, number, one_of, read_scenario, read_tables

ABOUT = (
    "Simulate the scheduler: the pass that the product runs, on a virtual clock. Over recorded work: "
    "--hosts and --jobs. Over invented work: --scenario. Prints a summary; --json writes everything."
)
FORMS = "give --scenario FILE, or --hosts FILE and --jobs FILE"
RECORDED_ONLY = ("default_class", "class_map", "time_limits", "every_job")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare both forms."""
    add_recorded(parser)
    add_invented(parser)
    add_always(parser)


def simulate(options: Mapping[str, Any]) -> Iterator[str]:
    """Simulate what the options say and give the lines of the summary; ValueError says what is wrong."""
    refuse_form(options)
    simulator = run(_setup(options), "Simulating")
    figures = report(simulator)
    write(options["json"], figures)
    if options["plot"]:
        source = options["scenario"] or options["jobs"]
        picture.draw(timeline(simulator), options["plot"], f"Simulation of {source.name}")
    for key, value in figures["summary"].items():
        shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
        yield f"{key:>18}  {shown}"
    refused = sum(task["state"] == "refused" for task in figures["tasks"].values())
    if refused:
        yield f"{'refused':>18}  {refused}: the whole cluster could never hold them"


def run(setup: Setup, title: str) -> Simulator:
    """Run a simulation to its end, with a bar on a terminal."""
    with progress.bar(setup, title) as watch:
        simulator = Simulator(setup, stopwatch=time.perf_counter, watch=watch)
        simulator.run()
    return simulator


def write(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Write figures as JSON, if there is where to."""
    if path:
        path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def refuse_form(options: Mapping[str, Any]) -> None:
    """Raise ValueError, before anything is simulated, for files that do not go together."""
    scenario = bool(options["scenario"])
    recorded = recorded_files(options)
    if scenario + bool(recorded) != 1:
        raise ValueError(FORMS + ("; they do not go together" if scenario else ""))
    if recorded and not (options["hosts"] and options["jobs"]):
        raise ValueError(f"{', '.join(recorded)} alone is not enough: give --hosts FILE and --jobs FILE")
    refuse_others(options, RECORDED_ONLY if scenario else (), "--scenario")
    refuse_places(options)


def recorded_files(options: Mapping[str, Any]) -> list[str]:
    """Return the options that name tables of recorded work."""
    return [f"--{name}" for name in ("hosts", "jobs", "quotas") if options[name]]


def refuse_others(options: Mapping[str, Any], others: tuple[str, ...], form: str) -> None:
    """Refuse options of another form than the one that was given: they would change nothing."""
    if given := [f"--{name.replace('_', '-')}" for name in others if options[name] not in (None, [])]:
        raise ValueError(f"{', '.join(given)} would change nothing with {form}: leave it out")


def refuse_places(options: Mapping[str, Any]) -> None:
    """Refuse where nothing could be written."""
    if options["plot"]:
        picture.refuse_early(options["plot"])
    if options["json"] and not options["json"].absolute().parent.is_dir():
        raise ValueError(f"--json: there is no folder {options['json'].absolute().parent}")


def _setup(options: Mapping[str, Any]) -> Setup:
    policy = pairs("--policy", options["policy"])
    if options["scenario"]:
        document = tables.scenario(options["scenario"])
        given = document.get("policy") or {}
        if not isinstance(given, dict):
            raise ValueError(f"policy names its values, as in {{slice_s: 600}}; this one is {given!r}")
        return read_scenario({**document, "policy": {**given, **policy}})
    class_map = pairs("--class-map", [pair for pair in (options["class_map"] or "").split(",") if pair])
    for theirs, ours in class_map.items():
        one_of(ours, CLASSES, f"--class-map: the class of {theirs}")
    quotas = options["quotas"]
    return read_tables(
        tables.rows("--hosts", options["hosts"], tables.HOSTS),
        tables.rows("--jobs", options["jobs"], tables.JOBS),
        tables.rows("--quotas", quotas, tables.QUOTAS) if quotas else (),
        policies.read(policy),
        default_class=options["default_class"] or "elastic",
        class_map=class_map,
        limit_factor=_factor(options["time_limits"]),
        every_job=pairs("--every-job", options["every_job"]),
    )


def pairs(option: str, texts: list[str]) -> dict[str, str]:
    """Return KEY=VALUE texts as a mapping; ValueError names the one that is none."""
    found = {}
    for text in texts:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not (key and sign and value):
            raise ValueError(f"{option}: {text!r} is not {PAIRS}")
        found[key] = value
    return found


def _factor(text: str | None) -> float | None:
    if text in (None, "none"):
        return None
    factor = number(text, "--time-limits")
    if factor == 0:
        raise ValueError(
            "--time-limits is none, or a factor of each duration such as 1.5; 0 would end all at once"
        )
    return factor
