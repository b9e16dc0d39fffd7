"""What many pages show alike is worked out once for all of them, and shown for a moment."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_ALL: list["Fresh[object]"] = []


class Fresh(Generic[T]):
    """Keeps what `make` returned for `seconds`; whoever comes meanwhile waits for the one who makes it."""

    def __init__(self, make: Callable[[], T], seconds: float) -> None:
        self._make = make
        self._seconds = seconds
        self._lock = threading.Lock()
        self._made: tuple[float, T] | None = None  # until when it is fresh, and what it is
        _ALL.append(self)  # type: ignore[arg-type]  # only to let go of it

    def get(self) -> T:
        """Return it, made anew where it is not fresh any more."""
        with self._lock:
            if self._made is None or time.monotonic() >= self._made[0]:
                found = self._make()
                self._made = time.monotonic() + self._seconds, found
            return self._made[1]

    def forget(self) -> None:
        """Let it be made anew by whoever asks next; what is being made just now, of what was there before, is none."""
        with self._lock:
            self._made = None


def forget_all() -> None:
    """Let everything be made anew: tests change what is shown."""
    for fresh in _ALL:
        fresh.forget()
