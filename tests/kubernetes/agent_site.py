"""A host with a real agent, whose calls are answered by the doors of the platform in the test's own thread."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import Client

from cluster import clock, reports, sync
from cluster.models import Host
from tests.kubernetes.sites import CUT, TWICE, UNHEARD, until

ROOT = Path(__file__).resolve().parents[2]
SYNC = "/api/agent/sync/"
LATE = {"errors": [{"field": "", "code": "late", "message": "A newer report of this host was taken before."}]}


@dataclass(slots=True)
class Call:
    """A call of the agent, whose line stays open until it is answered."""

    method: str
    path: str
    authorization: str
    body: bytes
    answer: tuple[int, bytes] = (CUT, b"")  # status, or CUT
    done: threading.Event = field(default_factory=threading.Event)

    def hear(self, status: int, body: bytes = b"{}") -> None:
        """Answer it."""
        self.answer = (status, body)
        self.done.set()

    def deliver(self) -> tuple[int, bytes]:
        """Bring it to the platform, which never waits for news here; return what that answers."""
        headers = {"authorization": self.authorization}
        answer = Client().generic(self.method, self.path, self.body, "application/json", headers=headers)
        return answer.status_code, answer.content


@dataclass(slots=True)
class Held:
    """A report that waits for news, as in the platform's door."""

    call: Call
    document: dict[str, Any]
    until: float  # by a clock that never jumps


class AgentSite:
    """A host with an agent."""

    def __init__(self, folder: Path) -> None:
        """Start the agent."""
        self.folder = folder
        self.storage = folder / "storage"
        self.storage.mkdir(parents=True)
        (folder / "join").write_text(f"{settings.JOIN_TOKEN}\n")
        self._news = threading.Condition()
        self._asked: list[Call] = []
        self._held: Held | None = None
        self._fails: list[int] = []  # how the next calls are answered
        self._failed = self._places_lost = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._door())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self._agent = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        options = {
            "--url": f"http://127.0.0.1:{self._server.server_address[1]}",
            "--name": "h1",
            "--state": str(self.folder / "state"),
            "--storage": str(self.storage),
            "--join-token-file": str(self.folder / "join"),
            "--engine": "none",
            "--simulate": "P40:8",
        }
        if os.geteuid() == 0:
            options["--task-user"] = "root"
        given = [part for option in options.items() for part in option]
        return subprocess.Popen(
            [sys.executable, "-m", "cluster.agent", "run", *given], cwd=ROOT, stderr=subprocess.DEVNULL
        )

    def step(self) -> None:
        """Answer what the agent asked, and what it was to wait for."""
        with self._news:
            self._news.wait_for(lambda: self._asked, 0.05)
            asked, self._asked = self._asked, []
        if self._held and any(call.path == SYNC for call in asked):
            self.cut()  # on its own end, for what it has to tell
        if self._held and self._fails and self._fails[0] != TWICE:  # what waits was taken, and only once
            self._held.call.hear(max(self._fail(), CUT))
            self._held = None
        for call in asked:
            self._attend(call)
        if self._held:
            self._tell(self._held)

    def _attend(self, call: Call) -> None:
        # To have the same part of a log twice is to have it once.
        fails = self._fails and (self._fails[0] != TWICE or call.path == SYNC)
        failure = self._fail() if fails else None
        if failure not in {None, UNHEARD, TWICE}:
            return call.hear(failure or CUT)
        document = json.loads(call.body) if call.path == SYNC else {}
        wait_s, document["wait_s"] = document.get("wait_s", 0), 0
        if call.path == SYNC:
            call.body = json.dumps(document).encode()  # nobody may wait in the test's own thread
        if failure == TWICE:
            call.deliver()
        status, body = call.deliver()
        if failure == UNHEARD:
            return call.hear(CUT)
        if failure == TWICE and status != 409:  # it said nothing new, so that it was not written down
            self.fail(TWICE, len(self._fails) + 1)
            self._failed -= 1
        if status == 200 and wait_s and json.loads(body)["version"] == document["have"]:
            self._held = Held(call, document, time.monotonic() + wait_s)
            return None
        self._note_place(status, call)
        return call.hear(status, body)

    def _fail(self) -> int:
        self._failed += 1
        return self._fails.pop(0)

    def _tell(self, held: Held) -> None:
        """Answer a report that waits once there is news for it, or no time left, as the platform's door does."""
        try:
            desired = sync.desired(Host.objects.get(name="h1"), reports.read(held.document))
        except sync.Late:
            self._note_place(409, held.call)
            held.call.hear(409, json.dumps(LATE).encode())
        else:
            if desired.version == held.document["have"] and time.monotonic() < held.until:
                return
            held.call.hear(200, json.dumps(desired.document(clock.now())).encode())
        self._held = None

    def _note_place(self, status: int, call: Call) -> None:
        self._places_lost += status == 409 and call.path == SYNC

    def restart(self) -> None:
        """Kill the agent and start another."""
        self._agent.kill()
        self._agent.wait()
        with self._news:
            for call in self._asked:
                call.hear(CUT)
            self._asked = []
        if self._held:
            self.cut()
        self._agent = self._start()

    def fail(self, status: int, times: int) -> None:
        """Have the platform answer so, whatever is asked; a report that waits is such a call."""
        self._fails = [status] * times

    def failed(self) -> int:
        """Return how many calls were answered so."""
        return self._failed

    def cut(self) -> None:
        """Cut the line on which a report waits for news."""
        until(self, lambda: self._held)
        assert self._held
        self._held.call.hear(CUT)
        self._held = None

    def forget_place(self) -> None:
        """Have the platform not know which report was the last, as behind a database that was restored.

        An agent has no place in the news that it could lose: each answer is all that there is. Of the two it is the
        platform that counts, and where it has lost count it says so (409) to the report that waits.
        """
        until(self, lambda: self._held)
        Host.objects.update(agent_boot="", agent_seq=0)
        assert self._held
        self._tell(self._held)

    def places_lost(self) -> int:
        """Return how many reports were answered 409: report anew."""
        return self._places_lost

    def refuse(self) -> dict[str, Any]:
        """Name a variable as none can be named.

        Nothing refuses what an agent orders: it is the agent itself that takes an order or does not, and says so in
        its report.
        """
        return {"env": {"A=B": ""}}

    def unheard(self, order: Callable[[], object]) -> None:
        """Give an order while a report waits, so that the answer to that brings it; no other call is answered."""
        until(self, lambda: self._held)
        order()
        until(self, lambda: self._held is None)

    def close(self) -> None:
        """End the agent; what it keeps must have ended before."""
        self._agent.kill()
        self._agent.wait()
        self._server.shutdown()
        self._server.server_close()

    def _door(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Calls(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:  # given up for news while it was being sent
                    self.close_connection = True
                    return
                call = Call(self.command, self.path, self.headers.get("Authorization", ""), body)
                with site._news:
                    site._asked.append(call)
                    site._news.notify_all()
                call.done.wait(60)
                status, body = call.answer
                if status == CUT:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = _answer

            def log_message(self, *_args: object) -> None:
                return

        return Calls
