"""`taiji sim`: the platform's own scheduler over recorded or invented work, on this machine."""

import argparse

import typer

from jobs.client.command import codes


def sim(context: typer.Context) -> None:
    """Simulate the scheduler over recorded or invented work; `taiji sim --help` names its options."""
    from jobs.management import simulating  # the simulator takes a moment to import

    parser = argparse.ArgumentParser(prog="taiji sim", description=simulating.ABOUT)
    simulating.add_arguments(parser)
    try:
        for line in simulating.simulate(vars(parser.parse_args(context.args))):
            print(line)
    except ValueError as error:
        parser.exit(codes.USAGE, f"taiji sim: {error}\n")
