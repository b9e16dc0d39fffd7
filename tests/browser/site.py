"""The web server as it is in production, on a database of its own, for a browser to look at."""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from launch import programs
from tests.browser.data import ROOT, Data
from tests.patience import WITHIN_S


class Site:
    """One server process on its own data folder."""

    def __init__(self, folder: Path, redis_url: str, *, like: Path | None = None, **more: str) -> None:
        """Lay out the folder and start the server; `more`: variables of its environment.

        `like`: a folder that has been made, so that a copy of it is enough.
        """
        self._data = Data(folder, redis_url, **more)
        if like is None:
            self._data.make()
        else:
            shutil.copytree(like, folder, dirs_exist_ok=True)
        self._log = (folder / "server.log").open("w")
        self.url, self._server = self._serve()
        self._seconds: list[subprocess.Popen[bytes]] = []

    def second(self) -> str:
        """Start one more server on the same data, which ends with the site, and return where it is."""
        url, server = self._serve()
        self._seconds.append(server)
        return url

    def deed(self, name: str) -> str:
        """Do one of the deeds to the database while the server runs, and return what it prints."""
        return self._data.deed(name)

    def begin(self, name: str) -> "subprocess.Popen[bytes]":
        """Begin one of the deeds in a process of its own, to be killed in the middle of it."""
        code = f"from tests.browser.deeds import DEEDS; DEEDS[{name!r}]()"
        return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=self.env)

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of the server and of everything that works on its data."""
        return self._data.env

    @property
    def pid(self) -> int:
        """Return the server's process id."""
        return self._server.pid

    def stop(self) -> None:
        """Stop the server."""
        for server in (self._server, *self._seconds):
            server.terminate()
            server.wait(WITHIN_S)
        self._log.close()
        self._data.close()

    def _serve(self) -> "tuple[str, subprocess.Popen[bytes]]":
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            port = trial.getsockname()[1]
        arguments = ["-m", "uvicorn", *programs.WEB, f"--port={port}", "--log-level=warning"]
        server = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=self.env, stderr=self._log)
        url = f"http://127.0.0.1:{port}"
        _wait(url, server)
        return url, server


def _wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + WITHIN_S
    while True:
        try:
            httpx.get(f"{url}/login/", timeout=2).raise_for_status()
            return
        except httpx.HTTPError:
            if time.monotonic() > until or server.poll() is not None:
                raise
            time.sleep(0.1)
