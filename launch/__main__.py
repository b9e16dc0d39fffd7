"""The commands of `script/`: up, down, test, bench and chaos."""

import sys
from pathlib import Path

# A folder that is run stands itself first on the path; its parent is what holds the package.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from launch import bench, chaos, down, testing, up  # noqa: E402  # only importable from here on
from launch.words import Refusal  # noqa: E402

COMMANDS = {
    "up": up.main,
    "down": down.main,
    "test": testing.main,
    "bench": bench.main,
    "chaos": chaos.main,
}


def main() -> int:
    """Run the command named first, and turn a refusal into its one sentence."""
    name, arguments = sys.argv[1], sys.argv[2:]
    try:
        return COMMANDS[name](arguments)
    except Refusal as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
