"""Run import-linter, whose command has no module of its own to call."""

import sys

from importlinter.cli import lint_imports_command

if __name__ == "__main__":
    sys.exit(lint_imports_command())
