"""What was done in a cluster counts as so until its watch shows it, or it is certain that it is otherwise."""

import threading
import time
from collections.abc import Collection, Hashable
from typing import Any, Generic, TypeVar

JSON = dict[str, Any]
CONFIRM_S = 5.0  # what is not shown for so long is asked for
Key = TypeVar("Key", bound=Hashable)


class Unseen(Generic[Key]):
    """Objects as they were when we had made or changed them, by key; any thread may ask and say."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._things: dict[Key, tuple[float, JSON]] = {}

    def note(self, key: Key, thing: JSON) -> None:
        """Keep an object that we made or changed just now."""
        with self._lock:
            self._things[key] = (time.monotonic(), thing)

    def find(self, key: Key) -> JSON | None:
        """Return what is kept of it."""
        with self._lock:
            return self._things[key][1] if key in self._things else None

    def is_late(self, key: Key) -> bool:
        """Say whether the watch should have shown it by now."""
        with self._lock:
            return key in self._things and time.monotonic() - self._things[key][0] > CONFIRM_S

    def forget(self, key: Key, thing: JSON | None = None) -> None:
        """Keep it no longer; with `thing`: only if it was not made or changed anew since."""
        with self._lock:
            if key in self._things and (thing is None or self._things[key][1] is thing):
                del self._things[key]

    def all_but(self, shown: Collection[Key]) -> dict[Key, JSON]:
        """Return what is not among those that the watch shows, which are kept no longer."""
        with self._lock:
            self._things = {key: kept for key, kept in self._things.items() if key not in shown}
            return {key: thing for key, (_, thing) in self._things.items()}
