"""The two worlds in which instances run, alike for a test: a host with a real agent, a cluster with its controller."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.test import Client

from cluster.models import Card, Host
from tests.kubernetes.conftest import Kube, node
from tests.patience import WITHIN_S

ROOT = Path(__file__).resolve().parents[2]


class Site(Protocol):
    """A host of the platform with 8 cards, on which instances really run."""

    storage: Path

    def step(self) -> None:
        """Let a moment pass in which everybody may do something."""

    def restart(self) -> None:
        """Kill who speaks for the host, and start it anew; what runs runs on."""

    def fail(self, status: int, times: int) -> None:
        """Have the next calls of who speaks for the host answered so; 0: not at all; -1: done, but nobody hears it."""

    def close(self) -> None:
        """End it all."""


def until(site: Site, met: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """Let moments pass until `met` is true, and return what it says."""
    deadline = time.monotonic() + within_s
    while not (found := met()):
        assert time.monotonic() < deadline, "not within its time"
        site.step()
    return found


def host(site: Site) -> Host:
    """Return the site's host once all its cards are known."""
    until(site, lambda: Card.objects.filter(state="ok").count() == 8)
    return Host.objects.get()


class ClusterSite:
    """A node of a cluster."""

    def __init__(self, kube: Kube) -> None:
        """Add the node."""
        self.kube = kube
        self.storage = kube.storage
        kube.add(node("gpu-1"))
        kube.control()

    def step(self) -> None:
        """Let the controller make a round."""
        for controller in self.kube.controllers:
            controller.round()
        time.sleep(0.02)

    def restart(self) -> None:
        """Kill the controller as far as a thread can be: it does nothing more, nor gives anything back."""
        dead = self.kube.controllers.pop()
        dead.lease._ended.set()
        dead.stop()
        dead.lease.stop()
        self.kube.control()

    def fail(self, status: int, times: int) -> None:
        """Have calls about pods fail; those that only look are never done without being heard."""
        methods = ("POST", "DELETE") if status < 0 else ("",)
        for method in methods:
            self.kube.server.fail(status, method=method, path="/pods", times=times)

    def close(self) -> None:
        """Nothing: the fixture of the cluster ends it."""


class AgentSite:
    """A host with an agent, whose calls are answered by the thread that asks for it: the test's."""

    def __init__(self, folder: Path) -> None:
        """Start the agent."""
        self.folder = folder
        self.storage = folder / "storage"
        self.storage.mkdir(parents=True)
        (folder / "join").write_text(f"{settings.JOIN_TOKEN}\n")
        self._news = threading.Condition()
        self._asked: list[_Call] = []
        self._fails: list[int] = []  # how the next calls are answered
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
        """Answer what the agent asked."""
        with self._news:
            self._news.wait_for(lambda: self._asked, 0.05)
            asked, self._asked = self._asked, []
        for call in asked:
            status = self._fails.pop(0) if self._fails else 200
            if status in {0, 429, 500}:
                call.answer = (status, b"{}")
                call.done.set()
                continue
            # Nobody may wait in the test's own thread.
            body = call.body.replace(b'"wait_s": 20', b'"wait_s": 0').replace(b'"wait_s":20', b'"wait_s":0')
            answer = Client().generic(
                call.method,
                call.path,
                body,
                "application/json",
                headers={"authorization": call.authorization},
            )
            call.answer = (0, b"") if status < 0 else (answer.status_code, answer.content)
            call.done.set()

    def restart(self) -> None:
        """Kill the agent and start another."""
        self._agent.kill()
        self._agent.wait()
        with self._news:
            for call in self._asked:
                call.done.set()
            self._asked = []
        self._agent = self._start()

    def fail(self, status: int, times: int) -> None:
        """Have the platform answer so."""
        self._fails = [status] * times

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
                call = _Call(
                    self.command, self.path, self.headers.get("Authorization", ""), self.rfile.read(length)
                )
                with site._news:
                    site._asked.append(call)
                    site._news.notify_all()
                call.done.wait(60)
                status, body = call.answer
                if status == 0:
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


class _Call:
    def __init__(self, method: str, path: str, authorization: str, body: bytes) -> None:
        self.method, self.path, self.authorization, self.body = method, path, authorization, body
        self.answer = (503, b"{}")
        self.done = threading.Event()
