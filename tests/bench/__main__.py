"""Run one benchmark and write its figures: `python -m tests.bench NAME FILE`."""

import importlib
import json
import sys
from pathlib import Path

name, file = sys.argv[1:]
Path(file).write_text(json.dumps(importlib.import_module(f"tests.bench.{name}").run()))
