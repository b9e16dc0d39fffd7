"""Stop the product of a data folder; tasks run on under their keepers and are found again."""

import argparse

from launch import group, places

STOPPED = "Stopped. Running tasks go on, and the next script/up finds them again."


def main(arguments: list[str]) -> int:
    """Run `script/down`."""
    argparse.ArgumentParser(
        prog="script/down",
        description="Stop the product on this machine; its tasks keep running.",
        epilog="TAIJI_DATA names the data folder.",
    ).parse_args(arguments)
    here = places.read()
    if not here.data.exists() or not group.stop(here):
        print(f"Nothing is running with the data folder {here.data}.")
        return 0
    print(STOPPED)
    return 0
