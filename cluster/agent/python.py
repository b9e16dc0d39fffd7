"""Our own Python, bare: with the standard library and this package it starts in 30 ms instead of 100."""

import os
import sys

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
)  # what holds this package
PYTHON = (sys.executable, "-I", "-S", "-X", "utf8", "-c")
