"""A stand-in for NVIDIA's container runtime: what Docker's API asks of it, done to a Podman's own API of that kind."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

CONTROL = {"PathOnHost": "/dev/null", "PathInContainer": "/dev/nvidiactl", "CgroupPermissions": "rw"}
# What a Docker daemon says of a host where the runtime is not installed.
MISSING = 'could not select device driver "" with capabilities: [[gpu]]'


class Runtime(ThreadingUnixStreamServer):
    """Everything is passed on to the engine behind it; cards that are asked for become a device, or a refusal."""

    daemon_threads = True

    def __init__(self, path: Path, engine: Path, *, installed: bool) -> None:
        """Listen at `path`, before the engine whose socket is `engine`."""
        self.engine = engine
        self.installed = installed
        self.asked: list[dict[str, Any]] = []  # for cards
        super().__init__(str(path), _Calls)

    def done(self, body: bytes) -> bytes | None:
        """Return what the engine is asked in place of `body`, which makes a container; None: it is refused."""
        document = json.loads(body)
        for asked in document["HostConfig"].pop("DeviceRequests", None) or []:
            self.asked.append(asked)
            if not self.installed:
                return None
            document["HostConfig"]["Devices"] = [*(document["HostConfig"].get("Devices") or []), CONTROL]
        return json.dumps(document).encode()


class _Engine(http.client.HTTPConnection):
    """A line to an engine's socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = str(path)

    def connect(self) -> None:
        """Open it."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


class _Calls(BaseHTTPRequestHandler):
    server: Runtime

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.partition("?")[0].endswith("/containers/create"):
            found = self.server.done(body)
            if found is None:
                self._answer(500, json.dumps({"message": MISSING}).encode(), "application/json")
                return
            body = found
        line = _Engine(self.server.engine)
        line.request(self.command, self.path, body, {"Content-Type": "application/json"})
        answer = line.getresponse()
        self._answer(answer.status, answer.read(), answer.headers.get("Content-Type", "application/json"))
        line.close()

    do_GET = do_DELETE = do_HEAD = do_POST

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def before(engine: Path, *, installed: bool = True) -> Iterator[Runtime]:
    """Give a Docker daemon with this runtime, or on a host where it is not installed."""
    path = engine.with_name("nvidia.sock")
    with Runtime(path, engine, installed=installed) as runtime:
        threading.Thread(target=runtime.serve_forever, args=(0.02,), daemon=True).start()
        yield runtime
        runtime.shutdown()
    path.unlink()
