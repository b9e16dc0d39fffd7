"""Whether the disk of this host has room for what the agent and its tasks have to write."""

import os
from pathlib import Path

LEAST = 64 * 1024**2  # bytes; below this a start may fail half-way


def trouble(folder: Path) -> str:
    """Say in a sentence that the disk of `folder` is full; blank where it is not, or not there yet."""
    try:
        disk = os.statvfs(folder)
    except FileNotFoundError:
        return ""
    if disk.f_bavail * disk.f_frsize >= LEAST:
        return ""
    return f"The disk of {folder} is full: starts may fail, and what tasks print may be lost."
