"""A whole product in a folder of its own, driven as a person at a terminal and a script over HTTP would."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx

from launch import answer, group, locks
from launch.places import ROOT, Places

OURS = ("TAIJI_", "PYTHON", "DATABASE_URL", "REDIS_URL", "DJANGO_")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


class Product:
    """One data folder, and what is started on it."""

    def __init__(self, data: Path, *, root: Path = ROOT, like: Path | None = None, **env: str) -> None:
        """Take the data folder and further variables of the environment; nothing is started yet.

        `like`: a folder to begin with a copy of, for a start that need not be the first one.
        """
        if like is not None:
            shutil.copytree(like, data)
        self.root, self.port = root, free_port()
        bare = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        self.env = bare | {"TAIJI_DATA": str(data), "TAIJI_PORT": str(self.port), "LC_ALL": "C"} | env
        self.data = data

    @property
    def places(self) -> Places:
        """Return where it keeps what it needs; a long path's run folder lies behind a link."""
        run = (self.data / "run").resolve()
        return Places(data=self.data, run=run, bind="127.0.0.1", port=self.port)

    def script(self, name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a script of the product and return what it said."""
        command = [str(self.root / "script" / name), *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120)

    def up(self, *arguments: str) -> float:
        """Start and return how many seconds that took."""
        began = time.monotonic()
        done = self.script("up", "--detach", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return time.monotonic() - began

    def down(self) -> None:
        """Stop, and see that no process of the group is left."""
        done = self.script("down")
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.members() == []

    def logs(self) -> str:
        """Return the end of every log, for the message of a failed test."""
        found = sorted(self.places.logs.glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in found)

    def members(self) -> list[int]:
        """Return the processes of the group, the supervisor apart."""
        return locks.holders(group.members_lock(self.places))

    def pid(self, name: str) -> int:
        """Return the id of a program's process."""
        return next((status.pid for status in group.statuses(self.places) if status.name == name), 0)

    def kill(self, name: str) -> int:
        """KILL a program and return the id it had."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGKILL)
        return pid

    def health(self) -> answer.Health | None:
        """Return what the product says of itself."""
        return answer.read(self.places)

    @property
    def api(self) -> httpx.Client:
        """Return a client that speaks as the operator."""
        token = (self.places.data / "admin-token").read_text().strip()
        return httpx.Client(
            base_url=f"{self.places.url}/api/v1/",
            headers={"Authorization": f"Token {token}"},
            timeout=30,
            trust_env=False,
        )

    def clear_away(self) -> None:
        """End what a test left, its tasks included; failures here would hide the test's own."""
        self.script("down")
        state = re.escape(str(self.places.data / "agents")).encode()
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                if re.search(state, (proc / "cmdline").read_bytes()):
                    os.kill(int(proc.name), signal.SIGTERM)
            except OSError:
                continue


def document(command: str, *, cards: int = 1, elastic: bool = True, **more: object) -> dict[str, Any]:
    """Return a config for the small world."""
    return {
        "business_flag": "ads",
        "host_num": 1,
        "host_gpu_num": cards,
        "GPUName": "P40",
        "is_elasticity": elastic,
        "start_cmd": command,
        **more,
    }
