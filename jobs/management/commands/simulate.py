"""Drive the scheduler over recorded or invented work on a virtual clock, or replay what ran here."""

import dataclasses
import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from cluster import clock
from jobs.management import side_by_side, simulating
from jobs.management.options import DAYS, add_live
from jobs.scheduling import policy as policies
from jobs.simulation.figures import report

MOST_DAYS = 3650  # that --live looks back
FORMS = "give --scenario FILE, or --hosts FILE and --jobs FILE, or --live"


class Command(BaseCommand):
    """`manage.py simulate`."""

    help = f"{simulating.ABOUT} Over what ran here lately: --live, which alone needs the database."
    requires_system_checks = ()  # without --live it needs no secret and no database

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the three forms."""
        add_live(parser)
        simulating.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Simulate and print the summary."""
        try:
            _refuse_early(options)
            for line in _live(options) if options["live"] else simulating.simulate(options):
                self.stdout.write(line)
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


def _live(options: dict[str, Any]) -> list[str]:
    """Replay what ran here, under today's policy and under the other one; return the lines to show."""
    from jobs.engine import replay, snapshot  # they need the database's settings, the others do not

    today = snapshot.policy()
    policy = {"today's policy": today}
    if options["policy"]:
        changes = simulating.pairs("--policy", options["policy"])
        policy[", ".join(options["policy"])] = policies.read({**dataclasses.asdict(today), **changes})
    work = replay.load(clock.seconds(), DAYS if options["days"] is None else options["days"])
    if not work.tasks:
        raise ValueError(f"no task ran here since {work.since:%Y-%m-%d %H:%M} UTC; --days looks back further")
    reports = {name: report(simulating.run(work.under(each), name)) for name, each in policy.items()}
    simulating.write(options["json"], reports)
    return [
        f"{work.tasks} tasks since {work.since:%Y-%m-%d %H:%M} UTC, on the hosts, cards and quotas of now.",
        f"{work.still_running} of them still run, and count with the work they did so far.",
        f"Left out, since they never ran and nobody knows how long they would: {work.never_ran}.",
        "",
        *side_by_side.lines(reports),
    ]


def _refuse_early(options: dict[str, Any]) -> None:
    """Refuse what cannot be meant, before anything is simulated."""
    files, live = bool(options["scenario"] or simulating.recorded_files(options)), options["live"]
    if files == live:
        raise ValueError(FORMS + ("; they do not go together" if live else ""))
    if not live:
        simulating.refuse_others(
            options, ("days",), "--scenario" if options["scenario"] else "--hosts and --jobs"
        )
        return
    simulating.refuse_others(options, simulating.RECORDED_ONLY, "--live")
    if options["plot"]:
        raise ValueError("--plot draws one simulation, and --live makes two: leave one of them out")
    if options["days"] is not None and not 0 < options["days"] <= MOST_DAYS:
        raise ValueError(
            f"--days is a number of days, more than 0 and {MOST_DAYS} at most, not {options['days']:g}"
        )
    simulating.refuse_places(options)
