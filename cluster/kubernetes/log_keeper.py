"""The logs of many pods at once, in threads of their own."""

import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cluster import logs
from cluster.kubernetes import names
from cluster.kubernetes.calls import Calls
from cluster.kubernetes.pod_logs import LAST_LOOK_S, PodLog, Source

log = logging.getLogger(__name__)
THREADS = 8


class LogKeeper:
    """The logs of all pods of a cluster, in threads of their own."""

    def __init__(self, calls: Calls) -> None:
        """Fetch through `calls`."""
        self._calls = calls
        self._lock = threading.Lock()
        self._kept: dict[uuid.UUID, PodLog] = {}
        self._busy: set[uuid.UUID] = set()
        self._news: set[int] = set()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="pod-logs")

    def follow(self, instance: uuid.UUID, pod: Mapping[str, Any]) -> None:
        """Keep the log of a pod as it is seen now."""
        self.follow_all(instance, int(names.labels_of(pod)[names.GANG]), (Source(pod=pod),))

    def follow_all(
        self, instance: uuid.UUID, gang: int, sources: Sequence[Source], *, is_all: bool = True
    ) -> None:
        """Keep what several pods print as the log of one instance; `is_all`: no more will come."""
        with self._lock:
            if sources or instance in self._kept:
                self._of(instance, gang).follow(sources, is_all=is_all)

    def say(self, instance: uuid.UUID, gang: int, words: str) -> None:
        """Write a line of ours into the log of an instance."""
        with self._lock:
            self._of(instance, gang).say(words)

    def is_whole(self, instance: uuid.UUID) -> bool:
        """Say whether all of it was taken over."""
        with self._lock:
            kept = self._kept.get(instance)
            return kept is not None and kept.done

    def keep(self, there: Set[uuid.UUID]) -> None:
        """Follow those no more that are whole, and whose pods are not there."""
        with self._lock:
            self._kept = {pk: one for pk, one in self._kept.items() if pk in there or not one.done}

    def look(self) -> None:
        """Look at those whose time it is, without waiting for them."""
        now = time.monotonic()
        with self._lock:
            due = [
                pk
                for pk, one in self._kept.items()
                if one.look_at <= now and not one.done and pk not in self._busy
            ]
            self._busy.update(due)
        for pk in due:
            self._pool.submit(self._look, pk)

    def news(self) -> set[int]:
        """Return the gangs whose logs grew since the last call."""
        with self._lock:
            news, self._news = self._news, set()
        return news

    def stop(self) -> None:
        """End once what is under way has ended."""
        self._pool.shutdown(cancel_futures=True)

    def _of(self, instance: uuid.UUID, gang: int) -> PodLog:
        if instance not in self._kept:
            self._kept[instance] = PodLog(instance, gang)
        return self._kept[instance]

    def _look(self, pk: uuid.UUID) -> None:
        with self._lock:
            kept = self._kept.get(pk)
        grew = False
        try:
            grew = kept is not None and kept.look(self._calls)
        except Exception as error:
            # Said, and tried again: a thread that only died would say nothing, and keep its pod for ever.
            known = isinstance(error, OSError | logs.NoSpace)
            log.warning("the log of %s is not kept: %r", pk, error, exc_info=not known)
            if kept is not None:
                kept.look_at = time.monotonic() + LAST_LOOK_S
        finally:
            with self._lock:
                self._busy.discard(pk)
                if grew and kept is not None:
                    self._news.add(kept.gang)
