"""People who submit without a pause and hosts that report again and again, in a process of their own."""

import http.client
import json
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.patience import WITHIN_S

ROOT = Path(__file__).parents[2]
IDLE_S = 2.0  # the server closes connections that are idle for longer: then there is a new one


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Who calls the platform on this port, and for how long."""

    port: int
    seconds: float
    person: str  # the token of who submits …
    posters: int  # … from so many threads at once
    document: dict[str, Any]
    hosts: list[str]  # their tokens
    cards: int  # of each host
    every_s: float  # each host reports so often, as far as it is answered in time


@dataclass(slots=True, kw_only=True)
class Figures:
    """How long each call took, and what was said to those that were refused."""

    posts: list[float] = field(default_factory=list)
    reports: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def write(work: Work) -> Figures:
    """Have all of this written, and return how it went."""
    command = [sys.executable, "-m", "tests.life.writers"]
    given = json.dumps(asdict(work))
    most_s = work.seconds + WITHIN_S
    done = subprocess.run(
        command, cwd=ROOT, input=given, stdout=subprocess.PIPE, text=True, timeout=most_s, check=True
    )
    return Figures(**json.loads(done.stdout))


class _Caller:
    """One connection, and what it counts into."""

    def __init__(self, port: int, authorization: str, took: list[float], refused: list[str]) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
        self._headers = {"Authorization": authorization, "Content-Type": "application/json"}
        self._took, self._refused = took, refused
        self._last_s = 0.0

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Return what is answered; {} where it was refused, which is noted."""
        began_s = time.monotonic()
        if began_s - self._last_s > IDLE_S:
            self._http.close()
        self._http.request("POST", path, json.dumps(document), self._headers)
        answer = self._http.getresponse()
        text = answer.read().decode()
        self._last_s = time.monotonic()
        self._took.append(self._last_s - began_s)
        if answer.status in {200, 201}:
            return dict(json.loads(text))
        self._refused.append(f"{path} {answer.status} {text[:200]}")
        return {}


class _Host:
    """A host on which everything succeeds: what it is told to run runs at one report and is gone at the next."""

    def __init__(self, cards: int) -> None:
        self._boot = str(uuid.uuid4())
        self._cards = cards
        self._seq = 0
        self._phases: dict[str, str] = {}

    def report(self) -> dict[str, Any]:
        """Return the next report, which always says what has to be written."""
        self._seq += 1
        return {
            **{"protocol": 2, "version": "0.1.0", "boot": self._boot, "seq": self._seq, "clock": time.time()},
            **{"address": "", "offers": ["process"], "trouble": f"look {self._seq}", "have": "", "wait_s": 0},
            "cards": [_card(index) for index in range(self._cards)],
            "instances": [_instance(pk, phase) for pk, phase in self._phases.items()],
        }

    def heed(self, answer: dict[str, Any]) -> None:
        """Do what it was told."""
        for pk in answer["forget"]:
            self._phases.pop(pk, None)
        wanted = {one["id"]: one["run"] for one in answer["instances"]}
        for pk, run in wanted.items():
            self._phases[pk] = "gone" if pk in self._phases or not run else "running"


def _card(index: int) -> dict[str, Any]:
    return {
        **{"index": index, "uuid": "", "gpu_type": "P40", "memory_mib": 0},
        **{"state": "ok", "reason": ""},
    }


def _instance(pk: str, phase: str) -> dict[str, Any]:
    end = {"exit_code": 0, "by_itself": True} if phase == "gone" else {}
    return {"id": pk, "phase": phase, "detail": "", "log_bytes": 0, **end}


def _submit(work: Work, figures: Figures, until_s: float) -> None:
    caller = _Caller(work.port, f"Token {work.person}", figures.posts, figures.refused)
    while time.monotonic() < until_s:
        caller.post("/api/v1/tasks/", work.document)


def _report(work: Work, place: int, figures: Figures, until_s: float) -> None:
    caller = _Caller(work.port, f"Bearer {work.hosts[place]}", figures.reports, figures.refused)
    host = _Host(work.cards)
    due_s = time.monotonic() + work.every_s * place / len(work.hosts)
    while due_s < until_s:
        time.sleep(max(0.0, due_s - time.monotonic()))
        if answer := caller.post("/api/agent/sync/", host.report()):
            host.heed(answer)
        due_s = max(due_s + work.every_s, time.monotonic())


def _main() -> None:
    work = Work(**json.load(sys.stdin))
    figures = Figures()
    until_s = time.monotonic() + work.seconds
    threads = [
        threading.Thread(target=_submit, args=(work, figures, until_s)) for _ in range(work.posters)
    ] + [
        threading.Thread(target=_report, args=(work, place, figures, until_s))
        for place in range(len(work.hosts))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump(asdict(figures), sys.stdout)


if __name__ == "__main__":
    _main()
