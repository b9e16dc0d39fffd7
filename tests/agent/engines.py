"""A Podman of our own: its service, its store, one small image, and a registry that asks for a password."""

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import podman
import pytest

from cluster.agent import mounts

PROGRAMS = ("podman", "runc", "conmon", "busybox")
IMAGE = "localhost/taiji-test:1"
USER, PASSWORD = "ops", "pull-s3cr3t"
APPLETS = (
    *("sh", "cat", "dd", "df", "echo", "env", "grep", "id", "kill"),
    *("ls", "mv", "printf", "pwd", "sleep", "tail", "test", "touch", "true"),
)
CONF = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""


def root_file_system() -> bytes:
    """Return a tar with busybox, /tmp for everybody, and root's name."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(busybox, "bin/busybox")
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        tmp = tarfile.TarInfo("tmp")
        tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(tmp)
    return content.getvalue()


class Service:
    """A Podman service with a store of its own below a short path, as its socket's may not be long."""

    def __init__(self) -> None:
        """Lay it out."""
        self.folder = Path(tempfile.mkdtemp(prefix="taiji-podman-"))
        self.socket = self.folder / "podman.sock"
        self.registry = Registry()
        (self.folder / "containers.conf").write_text(CONF)
        (self.folder / "registries.conf").write_text(
            f'[[registry]]\nlocation = "{self.registry.address}"\ninsecure = true\n'
        )
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def choice(self) -> str:
        """Return what an agent is given as --engine."""
        return f"podman:{self.socket}"

    def start(self) -> None:
        """Start the service, and wait until it answers."""
        places = [f"--{name}={self.folder / name}" for name in ("root", "runroot", "tmpdir")]
        own = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_REGISTRIES_CONF": "registries.conf"}
        self.socket.unlink(missing_ok=True)
        with (self.folder / "words.txt").open("ab") as words:
            self.process = subprocess.Popen(
                [
                    "podman",
                    *places,
                    "--storage-driver=vfs",
                    "system",
                    "service",
                    "-t0",
                    f"unix://{self.socket}",
                ],
                env=os.environ | {name: str(self.folder / file) for name, file in own.items()},
                cwd=self.folder,  # where conmon leaves a file when memory runs out
                stdout=words,
                stderr=words,
            )
        deadline = time.monotonic() + 20
        while not self.socket.exists():
            assert self.process.poll() is None, (self.folder / "words.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def client(self) -> podman.PodmanClient:
        """Return a client of it."""
        return podman.PodmanClient(base_url=f"unix://{self.socket}", timeout=30)

    def import_image(self) -> None:
        """Bring the image in."""
        answer = self.client().api.post(
            "/images/import",
            params={"reference": IMAGE},
            data=root_file_system(),
            headers={"Content-Type": "application/x-tar"},
        )
        answer.raise_for_status()

    def containers(self) -> list[str]:
        """Return the names of all containers."""
        return [str(one.name) for one in self.client().containers.list(all=True)]

    def kill(self) -> None:
        """Kill the service; what it started lives on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def clear(self) -> None:
        """End everything and remove it."""
        if self.process is not None:
            if self.process.poll() is not None:
                self.start()
            client = self.client()
            for one in client.containers.list(all=True):
                one.remove(force=True)
            self.process.terminate()
            self.process.wait(10)
        self.registry.close()
        for path in mounts.below(str(self.folder)):
            subprocess.run(["umount", path], check=True)
        shutil.rmtree(self.folder)


class Registry:
    """One image, given out to who knows the password; `stuck`: never answers."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.stuck = threading.Event()
        self.asked = threading.Event()
        layer = gzip.compress(root_file_system(), mtime=0)
        diff = hashlib.sha256(root_file_system()).hexdigest()
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff}"]},
            }
        ).encode()
        self.blobs = {_digest(blob): blob for blob in (layer, config)}
        kind = "application/vnd.oci.image"
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{kind}.manifest.v1+json",
                "config": _entry(f"{kind}.config.v1+json", config),
                "layers": [_entry(f"{kind}.layer.v1.tar+gzip", layer)],
            }
        ).encode()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _answers_of(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        """Return where it listens, as an image's name has it."""
        return f"127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        """Go away."""
        self.stuck.set()
        self.server.shutdown()
        self.server.server_close()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _entry(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _answers_of(registry: Registry) -> type[BaseHTTPRequestHandler]:
    right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Answers(BaseHTTPRequestHandler):
        """What of a registry's API a pull needs."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.startswith("/v2/stuck/"):
                registry.asked.set()
                registry.stuck.wait()
            if self.headers["Authorization"] != right:
                self.answer(401, b"{}", "application/json")
            elif "/manifests/" in self.path:
                known = self.path.startswith("/v2/team/")
                self.answer(
                    *(
                        (200, registry.manifest, "application/vnd.oci.image.manifest.v1+json")
                        if known
                        else (404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', "application/json")
                    )
                )
            elif "/blobs/" in self.path:
                self.answer(200, registry.blobs[self.path.rpartition("/")[2]], "application/octet-stream")
            else:
                self.answer(200, b"{}", "application/json")

        do_HEAD = do_GET

        def answer(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Content-Type", kind)
            self.send_header("Docker-Content-Digest", _digest(content))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Answers


@contextmanager
def service() -> Iterator[Service]:
    """Give a service that runs and has the image; skips where that cannot be."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"Containers are tested as root with {', '.join(PROGRAMS)}; missing: {missing or 'root'}")
    podman_service = Service()
    try:
        podman_service.start()
        podman_service.import_image()
        yield podman_service
    finally:
        podman_service.clear()
