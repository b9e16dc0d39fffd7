"""A small platform of our own: real HTTP, the agent's half of the protocol, all it was told kept."""

import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.patience import WITHIN_S

JOIN = "join-me"


class Platform:
    """What the stand-in wants of its one host, and what that host reported."""

    def __init__(self) -> None:
        """Start on a free port."""
        self.news = threading.Condition()
        self.version = 1
        self.orders: dict[str, dict[str, Any]] = {}
        self.forget: list[str] = []
        self.reports: list[dict[str, Any]] = []  # those that were taken
        self.received: list[tuple[str, int]] = []  # boot and number of all, in the order of their coming
        self.registered: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.logs: dict[str, bytearray] = {}
        self.log_status: int | None = None  # what each log call is answered with instead
        self.code: dict[str, bytes] = {}  # packed code by digest
        self.code_status: int | None = None
        self.held: set[str] = set()  # digests whose code is not sent yet
        self.downloads: list[str] = []  # digests that were asked for
        self.sync_status: int | None = None
        self.clock: Callable[[], float] = time.time
        self.cleared: list[str] = []  # faults of cards
        self.port = 0
        self.open()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def open(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen, on the port it had before if it had one."""
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), _calls_of(self))
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Go away."""
        self.server.shutdown()
        self.server.server_close()
        self.change()

    def change(self) -> None:
        """Answer the waiting calls."""
        with self.news:
            self.version += 1
            self.news.notify_all()

    def want(self, instance: str, spec: dict[str, Any]) -> None:
        """Have `instance` run."""
        self.orders[instance] = {"id": instance, "run": True, "spec": spec}
        self.change()

    def go(self, instance: str) -> None:
        """Say that the gang of `instance` is ready."""
        self.orders[instance]["go"] = True
        self.change()

    def stop(self, instance: str) -> None:
        """Have `instance` end."""
        self.orders[instance] = {"id": instance, "run": False, "spec": None}
        self.change()

    def drop(self, *instances: str) -> None:
        """Say no more of `instances`."""
        for instance in instances:
            self.orders.pop(instance, None)
        self.change()

    def done_with(self, instance: str) -> None:
        """Have `instance` forgotten."""
        self.orders.pop(instance, None)
        self.forget.append(instance)
        self.change()

    def seen(self, instance: str) -> dict[str, Any] | None:
        """Return what the last report says of `instance`."""
        with self.news:
            last = self.reports[-1]["instances"] if self.reports else []
        return next((item for item in last if item["id"] == instance), None)

    def until(self, met: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        """Return what `met` returns once that is true; fail after `within_s`."""
        deadline = time.monotonic() + within_s
        while not (found := met()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {within_s} s; last report: {self.reports[-1:]}")
            with self.news:
                self.news.wait(0.02)
        return found

    def phase(self, instance: str, phase: str, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Return what is reported of `instance` once it is in `phase`."""
        found: dict[str, Any] = self.until(
            lambda: (seen := self.seen(instance)) and seen["phase"] == phase and seen, within_s
        )
        return found

    def log_has(self, instance: str, text: bytes, within_s: float = WITHIN_S) -> bytes:
        """Return the log of `instance` once `text` is in it."""
        self.until(lambda: text in self.logs.get(instance, b""), within_s)
        return bytes(self.logs[instance])

    def register(self, token: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a registration."""
        if token != JOIN:
            return 403, {
                "errors": [{"field": "", "code": "token", "message": "This join token is not valid."}]
            }
        if any(known["name"] == body["name"] for known in self.registered):
            return 409, {
                "errors": [{"field": "name", "code": "taken", "message": "It is registered already."}]
            }
        self.registered.append(body)
        self.tokens.append(f"token-{len(self.registered)}")
        return 201, {"host": len(self.registered), "token": self.tokens[-1]}

    def sync(self, token: str, report: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Take a report, and answer it when there is news."""
        if token not in self.tokens:
            return 401, {
                "errors": [{"field": "", "code": "token", "message": "The host token is not valid."}]
            }
        if self.sync_status:
            return self.sync_status, {}
        with self.news:
            self.received.append((report["boot"], report["seq"]))
            last = self.reports[-1] if self.reports else None
            if last and last["boot"] == report["boot"] and report["seq"] <= last["seq"]:
                # A call that the agent hung up may come in behind the one that it made instead.
                return 409, {
                    "errors": [{"field": "", "code": "late", "message": "A newer report was taken."}]
                }
            self.reports.append(report)
            self.news.notify_all()
            self.news.wait_for(lambda: report["have"] != str(self.version), report["wait_s"])
            return 200, {
                "version": str(self.version),
                "now": self.clock(),
                "cleared": list(self.cleared),
                "instances": list(self.orders.values()),
                "forget": list(self.forget),
            }

    def append(self, instance: str, offset: int, content: bytes) -> tuple[int, dict[str, Any]]:
        """Take some of a log."""
        if self.log_status:
            return self.log_status, {}
        with self.news:
            log = self.logs.setdefault(instance, bytearray())
            if offset > len(log):
                return 409, {"end": len(log)}
            log += content[len(log) - offset :]
            self.news.notify_all()
            return 200, {"end": len(log)}


def _calls_of(platform: Platform) -> type[BaseHTTPRequestHandler]:
    class Calls(BaseHTTPRequestHandler):
        """The three calls of the protocol."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Register or sync."""
            act = platform.register if self.path.endswith("/register/") else platform.sync
            if body := self.body():
                self.answer(*act(self.token, json.loads(body)))

        def do_GET(self) -> None:
            """Hand out packed code."""
            digest = self.path.split("/")[4]
            platform.downloads.append(digest)
            while digest in platform.held:
                time.sleep(0.02)
            content = platform.code.get(digest)
            if platform.code_status:
                self.answer(platform.code_status, {})
                return
            if content is None:
                said = {"field": "", "code": "unknown", "message": "There is no such code."}
                self.answer(404, {"errors": [said]})
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_PUT(self) -> None:
            """Take a log."""
            parts = urlsplit(self.path)
            offset = int(parse_qs(parts.query)["offset"][0])
            body = self.body()
            if body is not None:
                self.answer(*platform.append(parts.path.split("/")[4], offset, body))

        @property
        def token(self) -> str:
            return self.headers["Authorization"].removeprefix("Bearer ")

        def body(self) -> bytes | None:
            """Return the body, or None where the agent gave the call up before it was sent whole."""
            length = int(self.headers["Content-Length"])
            body = self.rfile.read(length)
            self.close_connection |= len(body) < length
            return body if len(body) == length else None

        def answer(self, status: int, document: dict[str, Any]) -> None:
            content = json.dumps(document).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                self.close_connection = True  # the agent gave the call up

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Calls
