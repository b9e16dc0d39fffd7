"""Remove a folder whole, however deep a task nested it and whatever rights it took from it."""

import os
import subprocess

from cluster.agent.steps import find


def remove(folder: str) -> str:
    """Remove `folder` and all in it; return why something is left of it, blank where nothing is.

    By programs of the system: folders in folders without end take more recursion, handles or letters of a path
    than Python has for it.
    """
    if not os.path.lexists(folder):
        return ""
    if os.geteuid() != 0:  # as root nothing is locked; else what is read-only could not be emptied
        _run("chmod", "-R", "u+rwx", "--", folder)
    said = _run("rm", "-rf", "--", folder)
    return said or "it is not removed" if os.path.lexists(folder) else ""


def _run(program: str, *arguments: str) -> str:
    """Return the last line of what a program said, not too long for a sentence."""
    place = find(program, "")
    if place is None:
        return f"{program}: not found"
    try:
        done = subprocess.run(
            [place, *arguments],
            env={"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        return f"{program}: {error.strerror or error}"
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1][-200:] if lines else ""
