"""A mirror of one kind of objects: listed, then watched, and listed again where the watch lost its place, or seldom."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cluster.kubernetes.calls import Away, Calls, Expired, Missing, Refused

log = logging.getLogger(__name__)
JSON = dict[str, Any]
WATCH_S = 60  # the server ends a watch after so long, and it goes on where it was
QUIET_S = WATCH_S + 15.0  # a connection that says nothing for longer is dead
FIRST_RETRY_S, LAST_RETRY_S = 0.2, 10.0
RESYNC_S = 900.0  # after so long all is listed anew, should any news ever have been missed
ABSENT_S = 60.0  # a kind that is not served, or not for us, is looked for anew after so long
DOUBT_S = 5.0  # a kind that was not seen yet is believed to be absent after so long
AWAY_S = (
    300.0  # … and one that was served: an API server that has just begun, or lost an extension, denies it too
)


class Mirror:
    """What a thread of its own last heard of the objects at `path`, by namespace and name."""

    def __init__(
        self,
        calls: Calls,
        path: str,
        changed: Callable[[], None],
        *,
        keep: Callable[[JSON], JSON | None] = lambda thing: thing,
        optional: bool = False,
        **query: str,
    ) -> None:
        """Mirror what `query` selects; `keep` cuts down each object, or drops it with None.

        `optional`: the cluster need not have the kind at all, nor let us see it; then there are no objects. Of a
        kind that is no more what was seen last stands: only a list or a watch says that an object is gone.
        """
        self._calls, self._path, self._query = calls, path, query
        self._keep, self._changed, self._optional = keep, changed, optional
        self._lock = threading.Lock()
        self._objects: dict[str, JSON] = {}
        self._ended = threading.Event()
        self.synced = threading.Event()  # listed at least once
        self.version = ""  # of what is here
        self.trouble = ""  # why it is not up to date, in a sentence; blank: it is
        self.absent = optional  # there is no such kind, as far as is known
        self._denied_at: float | None = None  # since when the cluster does not show it
        self.lists = 0
        self._list_at = 0.0  # when all is listed anew
        self._thread = threading.Thread(target=self._run, name=f"mirror of {path}", daemon=True)

    def start(self) -> "Mirror":
        """Begin."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End with the next event or pause; the thread keeps nothing from ending."""
        self._ended.set()

    @property
    def is_denied(self) -> bool:
        """Say whether the cluster shows nothing of the kind at the moment: what is here may be older than that."""
        return self._denied_at is not None

    def objects(self) -> list[JSON]:
        """Return all objects, in order of namespace and name; they are not to be changed."""
        with self._lock:
            return [thing for _, thing in sorted(self._objects.items())]

    def _run(self) -> None:
        retry_s = FIRST_RETRY_S
        while not self._ended.is_set():
            try:
                if not self.version or time.monotonic() >= self._list_at:
                    self._list()
                self._watch()
                retry_s = FIRST_RETRY_S
                continue
            except Expired:
                log.info("the watch of %s lost its place: it is listed again", self._path)
                self.version = ""
                wait_s = random.uniform(0.0, FIRST_RETRY_S)
            except Refused as refused:
                wait_s = self._refused(refused, retry_s)
                retry_s = min(retry_s * 2, LAST_RETRY_S)
            except Exception as error:
                self._unheard(error)
                wait_s = retry_s * random.uniform(0.7, 1.3)
                retry_s = min(retry_s * 2, LAST_RETRY_S)
            self._ended.wait(wait_s)

    def _unheard(self, error: Exception) -> None:
        """Note that the API server is away, or said what cannot be read."""
        if isinstance(error, Away):
            self._note(f"{self._path} is not heard: {error}")
            return
        # Listed again: a thread that only died would let stand for ever what was seen last.
        log.exception("%s says what cannot be read", self._path)
        self._note(f"{self._path} is not heard: {error!r}")
        self.version = ""

    def _refused(self, refused: Refused, retry_s: float) -> float:
        """Note that the cluster does not show this kind; return how long to wait until it is asked again."""
        if not self._optional or refused.status not in {403, 404}:
            self._note(f"{self._path} is not heard: {refused}")
            return retry_s * random.uniform(0.7, 1.3)
        self.version = ""
        self._note("")
        if self._is_doubtful(refused):
            return retry_s * random.uniform(0.7, 1.3)
        if not self.absent or not self.synced.is_set():
            say = log.info if isinstance(refused, Missing) else log.warning
            say("%s is done without: %s", self._path, refused)
        self.absent = True
        self.synced.set()
        return ABSENT_S

    def _is_doubtful(self, refused: Refused) -> bool:
        """Say whether a kind that is not shown may be back in a moment; of one that was, it is said once."""
        now = time.monotonic()
        if self._denied_at is None:
            self._denied_at = now
            if not self.absent:
                log.warning("%s is not shown, what was seen of it stands: %s", self._path, refused)
        return now - self._denied_at < (DOUBT_S if self.absent else AWAY_S)

    def _note(self, trouble: str) -> None:
        if trouble != self.trouble:
            (log.warning if trouble else log.info)("%s", trouble or f"{self._path} is heard again")
            self.trouble = trouble
            self._changed()

    def _list(self) -> None:
        items, version = self._calls.list(self._path, **self._query)
        kept = {_key(thing): small for thing in items if (small := self._keep(thing)) is not None}
        with self._lock:
            self._objects, self.version, self.absent = kept, version, False
            self._denied_at = None
            self.lists += 1
        self._list_at = time.monotonic() + RESYNC_S * random.uniform(0.9, 1.1)
        self.synced.set()
        self._note("")
        self._changed()

    def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            "timeoutSeconds": WATCH_S,
        }
        began = time.monotonic()
        with self._calls.stream(self._path, QUIET_S, **query) as events:
            for event in events:
                self._note("")
                self._take(event)
                if self._ended.is_set():
                    return
        if time.monotonic() - began < FIRST_RETRY_S:  # one that ends at once is not asked for without a pause
            self._ended.wait(FIRST_RETRY_S)
        self._note("")

    def _take(self, event: Mapping[str, Any]) -> None:
        kind, thing = event["type"], event["object"]
        if kind == "ERROR":
            code, message = int(thing.get("code") or 0), str(thing.get("message", ""))
            raise Expired(code, "Expired", message) if code == 410 else Away(message or f"error {code}")
        with self._lock:
            if kind == "DELETED":
                self._objects.pop(_key(thing), None)
            elif kind != "BOOKMARK":
                self._put(thing)
            self.version = thing["metadata"]["resourceVersion"]
        if kind != "BOOKMARK":
            self._changed()

    def _put(self, thing: JSON) -> None:
        key, small = _key(thing), self._keep(thing)
        if small is None:
            self._objects.pop(key, None)
            return
        self._objects[key] = small


def _key(thing: Mapping[str, Any]) -> str:
    metadata = thing["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
