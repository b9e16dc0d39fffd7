"""What pods print: fetched bit by bit into our own store, each line once, whoever is restarted in between."""

import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cluster import logs
from cluster.kubernetes import names
from cluster.kubernetes.calls import Away, Calls, Refused
from cluster.kubernetes.seen import is_gone

FIRST_LOOK_S, LAST_LOOK_S = 0.5, 8.0  # between two looks: short while it prints, longer while it does not
PART = 2**20 - 2**12  # bytes asked for at a time: our store takes little more at once
PART_AT_MOST = 2**26  # where one second of a log, or a line, is longer
GIVE_UP_S = 60.0  # after its end: a node that is away gives nothing any more
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A pod whose log is taken over, as it was last seen."""

    pod: Pod
    containers: Sequence[str] = (names.CODE, names.MAIN)  # in the order in which they run
    key: str = "pod"  # tells it from others whose lines go into the same log
    mark: str = ""  # before each of its lines
    removed: bool = False  # it is no more, and another may have its name

    @property
    def version(self) -> tuple[str, str, bool]:
        """Return what changes whenever it does."""
        return self.key, self.pod["metadata"]["resourceVersion"], self.removed

    @property
    def ends(self) -> bool:
        """Say whether what it prints will not grow."""
        return self.removed or is_gone(self.pod, on_node=False)


@dataclass(slots=True)
class Cursor:
    """How far the log of one pod was taken over."""

    container: str = ""
    at_ns: int = 0  # of the last line that was taken
    same: int = 0  # how many lines of that very time were


@dataclass(slots=True)
class Book:
    """How far all that goes into one log was taken over; kept beside it until it is whole."""

    # Of our log: what lies behind it was written by one who was killed then, and is written over.
    end: int = 0
    cursors: dict[str, Cursor] = field(default_factory=dict)  # by the key of the source


class PodLog:
    """The log of one instance, from one pod or several; used by one thread at a time."""

    def __init__(self, instance: uuid.UUID, gang: int) -> None:
        """Go on where an earlier process was."""
        self.instance, self.gang = instance, gang
        self.done = False
        self.sources: tuple[Source, ...] = ()
        self.look_at = 0.0
        self._is_all = True
        self._look_s = FIRST_LOOK_S
        self._file = _place_of(instance)
        self._book = _read(self._file) or Book(end=logs.end_of(instance))
        self._part = PART
        self._finished: set[str] = set()  # keys of sources that are whole, or give nothing any more
        self._ended_at: dict[str, float] = {}
        self._words: list[str] = []  # of ours, to be written with the next look

    def follow(self, sources: Sequence[Source], *, is_all: bool = True) -> None:
        """Take over from these; `is_all`: none will come besides. One that is not among them any more is removed."""
        keys = {source.key for source in sources}
        left = [replace(one, removed=True) for one in self.sources if one.key not in keys]
        new = (*left, *sources)
        if [one.version for one in new] != [one.version for one in self.sources] or is_all != self._is_all:
            self.look_at = 0.0
        self.sources, self._is_all = new, is_all

    def say(self, words: str) -> None:
        """Write a line of ours with the next look."""
        self._words.append(words)
        self.look_at = 0.0

    def look(self, calls: Calls) -> bool:
        """Take over what is new; return whether anything was."""
        began, sources, is_all = self._book.end, self.sources, self._is_all
        while self._words:
            self._append_own(f"[taiji] {self._words[0]}\n".encode(errors="replace"))
            self._words.pop(0)
        for source in sources:
            if source.key not in self._finished:
                self._look_at(calls, source)
        self.done = self.done or (
            bool(sources) and is_all and self._finished >= {source.key for source in sources}
        )
        news = self._book.end != began
        self._look_s = FIRST_LOOK_S if news or self.done else min(self._look_s * 1.5, LAST_LOOK_S)
        self.look_at = time.monotonic() + self._look_s
        if self.done:
            self._file.unlink(missing_ok=True)
        return news

    def _look_at(self, calls: Calls, source: Source) -> None:
        if source.removed:
            self._finished.add(source.key)
            return
        try:
            if self._take(calls, source):
                self._finished.add(source.key)
        except (Away, Refused) as error:
            self._given_up(source, error)

    def _take(self, calls: Calls, source: Source) -> bool:
        """Take over each container's log in turn; return whether they are whole."""
        metadata = source.pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
        states = _states(source)
        order = list(states)
        cursor = self._book.cursors.setdefault(source.key, Cursor())
        for name, state in states.items():
            if cursor.container in order and order.index(name) < order.index(cursor.container):
                continue  # taken before
            if "running" not in state and "terminated" not in state:
                return source.ends  # it prints nothing yet, and what follows even less
            if cursor.container != name:
                cursor = self._book.cursors[source.key] = Cursor(container=name)
            while not self._fetch(calls, path, source, ended="terminated" in state):
                pass
            cursor = self._book.cursors[source.key]
            if "terminated" not in state:
                return False
        return source.ends

    def _fetch(self, calls: Calls, path: str, source: Source, *, ended: bool) -> bool:
        """Take over one part; return whether it was the last one that there is now."""
        cursor = self._book.cursors[source.key]
        since = datetime.fromtimestamp(cursor.at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        data = calls.text(
            path,
            container=cursor.container,
            timestamps="true",
            limitBytes=self._part,
            sinceTime=since if cursor.at_ns else "",
        )
        cut = len(data) >= self._part
        lines = data.splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n") and (cut or not ended):
            lines.pop()  # not whole yet
        self._keep(source, lines)
        if not cut:
            self._part = PART
            return True
        if self._book.cursors[source.key] == cursor:
            # All of it was known: one second, or one line, is longer than a part.
            if self._part >= PART_AT_MOST:
                self._append_own(
                    b"[taiji] what was printed within one second here is too much, and left out\n"
                )
                cursor = self._book.cursors[source.key]
                self._book.cursors[source.key] = replace(cursor, at_ns=cursor.at_ns + 10**9)
            self._part = min(self._part * 4, PART_AT_MOST)
        return False

    def _keep(self, source: Source, lines: list[bytes]) -> None:
        before = self._book.cursors[source.key]
        cursor, new, passed = replace(before), [], 0
        for line in lines:
            at_ns, text = _stamped(line, cursor.at_ns)
            if at_ns < before.at_ns:
                continue
            if at_ns == before.at_ns:
                passed += 1
                if passed <= before.same:
                    continue
            cursor.same = cursor.same + 1 if at_ns == cursor.at_ns else 1
            cursor.at_ns = at_ns
            new.append(source.mark.encode() + text)
        if new and len(self.sources) > 1 and not new[-1].endswith(b"\n"):
            new.append(b"\n")  # else a line of another pod would go on with it
        self._book.cursors[source.key] = cursor
        self._append(b"".join(new))

    def _append(self, data: bytes) -> None:
        try:
            for at in range(0, len(data), PART):
                self._book.end = logs.append(self.instance, self._book.end, data[at : at + PART])
        except (logs.Full, logs.Gap) as fault:
            self._book.end = fault.end
        if data:
            _write(self._file, self._book)

    def _append_own(self, line: bytes) -> None:
        """Write a line of ours, its end first: if it is missing after a crash, nothing else is."""
        begin = self._book.end
        _write(self._file, replace(self._book, end=begin + len(line)))
        self._append(line)

    def _given_up(self, source: Source, error: Exception) -> None:
        """Say what is missing of a log that its node does not give, some time after the end."""
        if not source.ends:
            return
        if isinstance(error, Refused) and error.status == 404:
            self._finished.add(source.key)  # the pod is no more
        now = time.monotonic()
        ended_at = self._ended_at.setdefault(source.key, now)
        if now - ended_at >= GIVE_UP_S:
            self._append_own(
                f"[taiji] the rest of the log could not be had: {error}\n".encode(errors="replace")
            )
            self._finished.add(source.key)


def _states(source: Source) -> dict[str, Mapping[str, Any]]:
    """Return the containers of a source in the order in which they run, with their states."""
    status = source.pod.get("status") or {}
    each: Iterable[Mapping[str, Any]] = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    states = {one["name"]: one.get("state") or {} for one in each}
    return {name: states[name] for name in source.containers if name in states}


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


def _read(file: Path) -> Book | None:
    try:
        said = json.loads(file.read_text())
        cursors = {key: Cursor(**one) for key, one in said["cursors"].items()}
        return Book(end=int(said["end"]), cursors=cursors)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _write(file: Path, book: Book) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(asdict(book)))
    os.replace(new, file)
