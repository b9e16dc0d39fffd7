"""Drive the scheduler over recorded or invented work on a virtual clock: no database, no service."""

import csv
import gzip
import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from jobs.scheduling import policy as policies
from jobs.scheduling.figures import report
from jobs.scheduling.simulate import Simulator
from jobs.scheduling.workload import Setup, read_scenario, read_tables


class Command(BaseCommand):
    """`manage.py simulate`."""

    help = "Simulate the scheduler over tables of hosts and jobs, or over a scenario."
    requires_system_checks = ()  # it needs no secret and no database

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare both forms."""
        parser.add_argument("--hosts", type=Path, help="CSV: host,region,gpu_type,gpu_num (.gz too)")
        parser.add_argument("--jobs", type=Path, help="CSV: job_id,user,group,submit_s,duration_s,…")
        parser.add_argument("--quotas", type=Path, help="CSV: business,gpu_type,region,cards")
        parser.add_argument("--policy", metavar="KEY=VALUE", nargs="+", action="extend", default=[])
        parser.add_argument("--default-class", default="elastic", choices=("high", "elastic", "auto"))
        parser.add_argument("--class-map", default="", metavar="strict=high,best=elastic")
        parser.add_argument("--time-limits", default="none", metavar="none|FACTOR")
        parser.add_argument("--scenario", type=Path, help="YAML with hosts, quotas, policy, until and events")
        parser.add_argument(
            "--json", type=Path, metavar="OUT", help="write tasks, evictions and figures there"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Simulate and print the summary."""
        try:
            setup = self._setup(options)
        except KeyError as error:
            raise CommandError(f"{error} is missing") from error
        except (ValueError, OSError, yaml.YAMLError) as error:
            raise CommandError(str(error)) from error
        simulator = Simulator(setup, stopwatch=time.perf_counter)
        simulator.run()
        figures = report(simulator)
        if options["json"]:
            options["json"].write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
        for key, value in figures["summary"].items():
            shown = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
            self.stdout.write(f"{key:>18}  {shown}")

    def _setup(self, options: dict[str, Any]) -> Setup:
        policy = policies.read(dict(_pair(text) for text in options["policy"]))
        if options["scenario"]:
            document = yaml.safe_load(options["scenario"].read_text())
            if not isinstance(document, dict):
                raise ValueError(f"{options['scenario']} is no scenario")
            document["policy"] = {
                **(document.get("policy") or {}),
                **dict(_pair(text) for text in options["policy"]),
            }
            return read_scenario(document)
        if not options["hosts"] or not options["jobs"]:
            raise ValueError("give --scenario, or --hosts and --jobs")
        limits = options["time_limits"]
        return read_tables(
            _rows(options["hosts"]),
            _rows(options["jobs"]),
            _rows(options["quotas"]) if options["quotas"] else (),
            policy,
            default_class=options["default_class"],
            class_map=dict(_pair(text) for text in options["class_map"].split(",") if text),
            limit_factor=None if limits == "none" else float(limits),
        )


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with _open(path) as file:
        yield from csv.DictReader(file)


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
