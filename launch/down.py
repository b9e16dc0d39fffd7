"""Stop the product of a data folder; tasks run on under their keepers and are found again."""

from launch import group, places
from launch.words import Refusal


def main(arguments: list[str]) -> int:
    """Run `script/down`."""
    if arguments:
        raise Refusal("script/down takes no arguments; TAIJI_DATA names the data folder.")
    here = places.read()
    if not here.data.exists() or not group.stop(here):
        print(f"Nothing is running with the data folder {here.data}.")
        return 0
    print("Stopped. Running tasks go on, and the next script/up finds them again.")
    return 0
