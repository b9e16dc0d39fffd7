"""What pods print: fetched bit by bit into our own store, each line once, whoever is restarted in between."""

import json
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cluster import logs
from cluster.kubernetes import names
from cluster.kubernetes.calls import Away, Calls, Refused
from cluster.kubernetes.seen import is_gone

log = logging.getLogger(__name__)
THREADS = 8
FIRST_LOOK_S, LAST_LOOK_S = 0.5, 8.0  # between two looks: short while it prints, longer while it does not
PART = 2**20 - 2**12  # bytes asked for at a time: our store takes little more at once
PART_AT_MOST = 2**26  # where one second of a log, or a line, is longer
GIVE_UP_S = 60.0  # after its end: a node that is away gives nothing any more
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")


@dataclass(slots=True)
class Place:
    """How far the log of a pod was taken over; kept beside it until it is whole."""

    container: str = ""
    at_ns: int = 0  # of the last line that was taken
    same: int = 0  # how many lines of that very time were
    # Of our log: what lies behind it was written by one who was killed then, and is written over.
    end: int = 0


class PodLog:
    """The log of one pod; used by one thread at a time."""

    def __init__(self, instance: uuid.UUID, gang: int) -> None:
        """Go on where an earlier process was."""
        self.instance, self.gang = instance, gang
        self.done = False
        self.pod: Mapping[str, Any] | None = None  # as last seen
        self.look_at = 0.0
        self._look_s = FIRST_LOOK_S
        self._file = _place_of(instance)
        self._place = _read(self._file) or Place(end=logs.end_of(instance))
        self._part = PART
        self._ended_at: float | None = None
        self._words: list[str] = []  # of ours, to be written with the next look

    def say(self, words: str) -> None:
        """Write a line of ours with the next look."""
        self._words.append(words)
        self.look_at = 0.0

    def look(self, calls: Calls) -> bool:
        """Take over what is new; return whether anything was."""
        pod, began = self.pod, self._place.end
        while self._words:
            self._append_own(f"[taiji] {self._words[0]}\n".encode(errors="replace"))
            self._words.pop(0)
        if pod is not None and not self.done:
            try:
                self.done = self._take(calls, pod)
            except (Away, Refused) as error:
                self._given_up(error)
        news = self._place.end != began
        self._look_s = FIRST_LOOK_S if news or self.done else min(self._look_s * 1.5, LAST_LOOK_S)
        self.look_at = time.monotonic() + self._look_s
        if self.done:
            self._file.unlink(missing_ok=True)
        return news

    def _take(self, calls: Calls, pod: Mapping[str, Any]) -> bool:
        """Take over each container's log in turn; return whether they are whole."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/log"
        over = _nothing_comes(pod)
        for name, state in _containers(pod):
            if self._place.container not in {"", name} and not self._is_behind(name, pod):
                continue  # taken before
            if "running" not in state and "terminated" not in state:
                return over  # it prints nothing yet, and what follows even less
            if self._place.container != name:
                self._place = Place(container=name, end=self._place.end)
            while not self._fetch(calls, path, name, ended="terminated" in state):
                pass
            if "terminated" not in state:
                return False
        return over

    def _is_behind(self, name: str, pod: Mapping[str, Any]) -> bool:
        order = [each for each, _ in _containers(pod)]
        return order.index(name) >= order.index(self._place.container)

    def _fetch(self, calls: Calls, path: str, container: str, *, ended: bool) -> bool:
        """Take over one part; return whether it was the last one that there is now."""
        place = self._place
        since = datetime.fromtimestamp(place.at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        data = calls.text(
            path,
            container=container,
            timestamps="true",
            limitBytes=self._part,
            sinceTime=since if place.at_ns else "",
        )
        cut = len(data) >= self._part
        lines = data.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n") and (cut or not ended):
            lines.pop()  # not whole yet
        self._keep(lines)
        if not cut:
            self._part = PART
            return True
        if self._place == place:
            # All of it was known: one second, or one line, is longer than a part.
            if self._part >= PART_AT_MOST:
                self._append_own(
                    b"[taiji] what was printed within one second here is too much, and left out\n"
                )
                self._place.at_ns += 10**9
            self._part = min(self._part * 4, PART_AT_MOST)
        return False

    def _keep(self, lines: list[bytes]) -> None:
        place = replace(self._place)
        new, passed = [], 0
        for line in lines:
            at_ns, text = _stamped(line, place.at_ns)
            if at_ns < self._place.at_ns:
                continue
            if at_ns == self._place.at_ns:
                passed += 1
                if passed <= self._place.same:
                    continue
            place.same = place.same + 1 if at_ns == place.at_ns else 1
            place.at_ns = at_ns
            new.append(text)
        self._place = place
        self._append(b"".join(new))

    def _append(self, data: bytes) -> None:
        try:
            for at in range(0, len(data), PART):
                self._place.end = logs.append(self.instance, self._place.end, data[at : at + PART])
        except (logs.Full, logs.Gap) as fault:
            self._place.end = fault.end
        if data:
            _write(self._file, self._place)

    def _append_own(self, line: bytes) -> None:
        """Write a line of ours, its end first: if it is missing after a crash, nothing else is."""
        begin = self._place.end
        _write(self._file, replace(self._place, end=begin + len(line)))
        self._append(line)

    def _given_up(self, error: Exception) -> None:
        """Say what is missing of a log that its node does not give, some time after the end."""
        if self.pod is None or not _nothing_comes(self.pod):
            return
        if isinstance(error, Refused) and error.status == 404:
            self.done = True  # the pod is no more
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        if now - self._ended_at >= GIVE_UP_S:
            self._append_own(
                f"[taiji] the rest of the log could not be had: {error}\n".encode(errors="replace")
            )
            self.done = True


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
        with self._lock:
            kept = self._of(instance, int(names.labels_of(pod)[names.GANG]))
            if (
                kept.pod is None
                or kept.pod["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]
            ):
                kept.pod, kept.look_at = pod, 0.0

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
        except (OSError, logs.NoSpace) as error:
            log.warning("the log of %s is not kept: %s", pk, error or "the disk is full")
            if kept is not None:
                kept.look_at = time.monotonic() + LAST_LOOK_S
        except Exception:
            # Said, and tried again: a thread that only died would say nothing, and keep its pod for ever.
            log.exception("the log of %s was not looked at", pk)
            if kept is not None:
                kept.look_at = time.monotonic() + LAST_LOOK_S
        finally:
            with self._lock:
                self._busy.discard(pk)
                if grew and kept is not None:
                    self._news.add(kept.gang)


def _containers(pod: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the containers of ours in the order in which they run, with their states."""
    status = pod.get("status") or {}
    each = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    states = {one["name"]: one.get("state") or {} for one in each}
    return [(name, states[name]) for name in (names.CODE, names.MAIN) if name in states]


def _nothing_comes(pod: Mapping[str, Any]) -> bool:
    """Say whether what it prints will not grow: one that has no place yet only will get one if it is not leaving."""
    return is_gone(pod, on_node=False)


def _stamped(line: bytes, before_ns: int) -> tuple[int, bytes]:
    """Return the time of a line and the line without it; one without has the time of the one before."""
    found = STAMP.match(line)
    if found is None:
        return before_ns, line
    zone = b"+00:00" if found[3] == b"Z" else found[3]
    at = datetime.fromisoformat((found[1] + zone).decode())
    return int(at.timestamp()) * 10**9 + int((found[2] or b"0").ljust(9, b"0")), line[found.end() :]


def _place_of(instance: uuid.UUID) -> Path:
    return logs.path_of(instance).with_suffix(".place")


def _read(file: Path) -> Place | None:
    try:
        return Place(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _write(file: Path, place: Place) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(place)))
    os.replace(new, file)
