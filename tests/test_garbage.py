"""Garbage is looked for while nobody asks, and in the end also while somebody always does."""

import asyncio
import gc
import time
import weakref
from typing import Any

import pytest

from taiji_site import garbage
from tests.patience import WITHIN_S


class Ring:
    """What only a look for garbage removes."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Any:
    before = gc.get_threshold()
    monkeypatch.setattr(garbage, "PERIOD_S", 0.05)
    monkeypatch.setattr(garbage, "CALM_S", 2.0)  # longer than a busy machine keeps anybody from asking
    monkeypatch.setattr(garbage, "THRESHOLDS", (10**6, 10**6, 10**6))  # nothing else looks
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def lasting_garbage() -> "weakref.ref[Ring]":
    """Return what became garbage after a look had found it to last."""
    ring = Ring()
    gc.collect(0)
    return weakref.ref(ring)


async def answer(_scope: Any, _receive: Any, _send: Any) -> None:
    """Answer nothing."""


async def ask(application: Any, for_s: float, ring: "weakref.ref[Ring]") -> None:
    """Ask for as long as the ring is there, and so long at most."""
    until = time.monotonic() + for_s
    while ring() is not None and time.monotonic() < until:
        await application({}, None, None)
        await asyncio.sleep(0.02)


def test_while_somebody_asks_nothing_is_looked_through_and_in_the_calm_everything() -> None:
    async def go() -> None:
        application = garbage.in_calm(answer)
        ring = lasting_garbage()
        await ask(application, 1.0, ring)
        assert ring() is not None
        until = time.monotonic() + WITHIN_S
        while ring() is not None and time.monotonic() < until:
            await asyncio.sleep(0.1)
        assert ring() is None

    asyncio.run(go())


def test_where_somebody_always_asks_it_is_put_off_no_longer_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "LONGEST_S", 0.3)

    async def go() -> None:
        application = garbage.in_calm(answer)
        ring = lasting_garbage()
        await ask(application, WITHIN_S, ring)
        assert ring() is None

    asyncio.run(go())
