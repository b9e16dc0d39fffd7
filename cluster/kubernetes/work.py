"""Orders under way: many at once, one at a time for each instance, and those that failed again a little later."""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cluster.kubernetes.calls import CALL_S, THREADS, Away, Refused
from cluster.kubernetes.lease import NotHolder
from cluster.kubernetes.orders import NotYet
from cluster.kubernetes.outcomes import Outcome

log = logging.getLogger(__name__)
RETRY_S = 1.0
DOUBT_S = 2 * CALL_S  # within which a call that broke off may still come true


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An order that was carried out, or refused for good."""

    instance: uuid.UUID
    result: Outcome = None
    refused: Refused | None = None


class Work:
    """The orders of one controller."""

    def __init__(self, wake: Callable[[], None], threads: int = THREADS) -> None:
        """Call `wake` whenever one is done; so many are under way at once."""
        self._wake = wake
        self._lock = threading.Lock()
        self._busy: dict[uuid.UUID, float] = {}  # until when nothing else is to be done to it; inf: under way
        self._doubtful: dict[uuid.UUID, float] = {}
        self._done: list[Done] = []
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="orders")

    def busy(self) -> set[uuid.UUID]:
        """Return the instances that something is being done to, or was and is not taken note of yet."""
        with self._lock:
            self._forget()
            return {*self._busy, *(done.instance for done in self._done)}

    def doubtful(self) -> set[uuid.UUID]:
        """Return the instances of which a start may yet come true that nobody saw succeed."""
        with self._lock:
            self._forget()
            return set(self._doubtful)

    def _forget(self) -> None:
        now = time.monotonic()
        self._busy = {pk: until for pk, until in self._busy.items() if until > now}
        self._doubtful = {pk: until for pk, until in self._doubtful.items() if until > now}

    def begin(self, pk: uuid.UUID, order: Callable[[], Outcome], *others: uuid.UUID) -> None:
        """Carry out an order, unless something is being done to the instance, or to others that it is about too."""
        every = (pk, *others)
        with self._lock:
            if any(self._busy.get(one, 0.0) > time.monotonic() for one in every):
                return
            self._busy |= dict.fromkeys(every, float("inf"))
        self._pool.submit(self._run, every, order)

    def done(self) -> list[Done]:
        """Return what was done since the last call."""
        with self._lock:
            done, self._done = self._done, []
        return done

    def stop(self) -> None:
        """Wait for what is under way; begin nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, every: tuple[uuid.UUID, ...], order: Callable[[], Outcome]) -> None:
        pause_s, done, pk = 0.0, None, every[0]
        try:
            done = Done(instance=pk, result=order())
        except Refused as refused:
            done = Done(instance=pk, refused=refused)
        except (Away, NotHolder, NotYet) as error:
            log.warning("instance %s is tried again: %s", pk, error)
            pause_s = RETRY_S
            if isinstance(error, Away):
                with self._lock:
                    self._doubtful |= dict.fromkeys(every, time.monotonic() + DOUBT_S)
        except Exception:
            # Said, and tried again: a thread that only died would leave the instance busy for ever.
            log.exception("instance %s: its order broke off", pk)
            pause_s = 10 * RETRY_S
        with self._lock:
            self._busy |= dict.fromkeys(every, time.monotonic() + pause_s)
            if done is not None:
                self._done.append(done)
        self._wake()
