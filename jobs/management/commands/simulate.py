"""Drive the scheduler over recorded or invented work on a virtual clock, or replay what ran here."""

import dataclasses
import json
import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from jobs.management import picture, progress, side_by_side, tables
from jobs.management.options import DAYS, PAIRS, add_always, add_others, add_recorded
from jobs.scheduling import policy as policies
from jobs.simulation.figures import report
from jobs.simulation.job import Setup
from jobs.simulation.simulate import Simulator
from jobs.simulation.timeline import timeline
from jobs.simulation.workload import CLASSES, number, one_of, read_scenario, read_tables

MOST_DAYS = 3650  # that --live looks back
FORMS = "give --scenario FILE, or --hosts FILE and --jobs FILE, or --live"


class Command(BaseCommand):
    """`manage.py simulate`."""

    help = (
        "Simulate the scheduler: the pass that the product runs, on a virtual clock. Over recorded work: "
        "--hosts and --jobs. Over invented work: --scenario. Over what ran here lately: --live. "
        "Only --live needs the database. Prints a summary; --json writes everything."
    )
    requires_system_checks = ()  # without --live it needs no secret and no database

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the three forms."""
        add_recorded(parser)
        add_others(parser)
        add_always(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Simulate and print the summary."""
        try:
            _refuse_early(options)
            if options["live"]:
                self._live(options)
            else:
                self._simulate(options)
        except ValueError as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(
                f"the database cannot be read ({error}): is it the one of DATABASE_URL?"
            ) from error
        except BrokenPipeError:  # whoever read the summary, such as `head`, has enough
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # the last flush says nothing either
            sys.exit(141)  # as a program that SIGPIPE ends
        except OSError as error:  # what is read says so in a ValueError of its own
            # Of a full disk the error names no file.
            where = error.filename or options["json"] or options["plot"] or "the answer"
            raise CommandError(f"{where} cannot be written: {error.strerror}") from error
        except KeyboardInterrupt:
            raise CommandError("broken off", returncode=130) from None

    def _simulate(self, options: dict[str, Any]) -> None:
        simulator = _run(_setup(options), "Simulating")
        figures = report(simulator)
        _write(options["json"], figures)
        if options["plot"]:
            source = options["scenario"] or options["jobs"]
            picture.draw(timeline(simulator), options["plot"], f"Simulation of {source.name}")
        for key, value in figures["summary"].items():
            shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
            self.stdout.write(f"{key:>18}  {shown}")
        refused = sum(task["state"] == "refused" for task in figures["tasks"].values())
        if refused:
            self.stdout.write(f"{'refused':>18}  {refused}: the whole cluster could never hold them")

    def _live(self, options: dict[str, Any]) -> None:
        """Replay what ran here, under today's policy and under the other one."""
        from jobs.engine import replay, snapshot  # they need the database's settings, the others do not

        today = snapshot.policy()
        policy = {"today's policy": today}
        if options["policy"]:
            changes = _pairs("--policy", options["policy"])
            policy[", ".join(options["policy"])] = policies.read({**dataclasses.asdict(today), **changes})
        work = replay.load(time.time(), DAYS if options["days"] is None else options["days"])
        if not work.tasks:
            raise ValueError(
                f"no task ran here since {work.since:%Y-%m-%d %H:%M} UTC; --days looks back further"
            )
        reports = {name: report(_run(work.under(each), name)) for name, each in policy.items()}
        _write(options["json"], reports)
        self.stdout.write(
            f"{work.tasks} tasks since {work.since:%Y-%m-%d %H:%M} UTC, on the hosts, cards and quotas of now.\n"
            f"{work.still_running} of them still run, and count with the work they did so far.\n"
            f"{work.never_ran} others are left out: they never ran, so nobody knows how long they would.\n"
        )
        for line in side_by_side.lines(reports):
            self.stdout.write(line)


def _run(setup: Setup, title: str) -> Simulator:
    with progress.bar(setup, title) as watch:
        simulator = Simulator(setup, stopwatch=time.perf_counter, watch=watch)
        simulator.run()
    return simulator


def _write(path: Path | None, figures: dict[str, Any]) -> None:
    if path:
        path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _refuse_early(options: dict[str, Any]) -> None:
    """Refuse what cannot be meant, before anything is simulated."""
    scenario, live = bool(options["scenario"]), options["live"]
    recorded = [f"--{name}" for name in ("hosts", "jobs", "quotas") if options[name]]
    if scenario + live + bool(recorded) != 1:
        raise ValueError(f"{FORMS}" + ("; they do not go together" if scenario or live or recorded else ""))
    if recorded and not (options["hosts"] and options["jobs"]):
        raise ValueError(f"{', '.join(recorded)} alone is not enough: give --hosts FILE and --jobs FILE")
    if live and options["plot"]:
        raise ValueError("--plot draws one simulation, and --live makes two: leave one of them out")
    _refuse_others(options, "--scenario" if scenario else "--live" if live else "--hosts and --jobs")
    if options["days"] is not None and not 0 < options["days"] <= MOST_DAYS:
        raise ValueError(
            f"--days is a number of days, more than 0 and {MOST_DAYS} at most, not {options['days']:g}"
        )
    if options["plot"]:
        picture.refuse_early(options["plot"])
    if options["json"] and not options["json"].absolute().parent.is_dir():
        raise ValueError(f"--json: there is no folder {options['json'].absolute().parent}")


def _refuse_others(options: dict[str, Any], form: str) -> None:
    """Refuse options of another form than the one that was given: they would change nothing."""
    recorded = ("default_class", "class_map", "time_limits", "every_job")
    others = (() if form.startswith("--hosts") else recorded) + (() if form == "--live" else ("days",))
    if given := [f"--{name.replace('_', '-')}" for name in others if options[name] not in (None, [])]:
        raise ValueError(f"{', '.join(given)} would change nothing with {form}: leave it out")


def _setup(options: dict[str, Any]) -> Setup:
    policy = _pairs("--policy", options["policy"])
    if options["scenario"]:
        document = tables.scenario(options["scenario"])
        given = document.get("policy") or {}
        if not isinstance(given, dict):
            raise ValueError(f"policy names its values, as in {{slice_s: 600}}; this one is {given!r}")
        return read_scenario({**document, "policy": {**given, **policy}})
    class_map = _pairs("--class-map", [pair for pair in (options["class_map"] or "").split(",") if pair])
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
        every_job=_pairs("--every-job", options["every_job"]),
    )


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
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
