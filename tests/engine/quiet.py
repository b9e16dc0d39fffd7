"""Passes until nothing is left to do."""

import pytest

from jobs.engine import passes


def planned() -> bool:
    """Run a pass and say whether it planned anew."""
    done = passes.run()
    assert done is not None
    return done.planned


def settle() -> None:
    """Run passes until nothing changes any more."""
    for _ in range(5):
        if not planned():
            return
    pytest.fail("passes go on planning although nothing changes")
