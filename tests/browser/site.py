"""The web server as it is in production, on a database of its own, for a browser to look at."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
from cryptography.fernet import Fernet

ROOT = Path(__file__).parents[2]
STARTS_WITHIN_S = 30


class Site:
    """One server process on its own data folder."""

    def __init__(self, data: Path, redis_url: str, **more: str) -> None:
        """Prepare the database and its small world, and start the server; `more`: variables of its environment."""
        with socket.socket() as trial:
            trial.bind(("127.0.0.1", 0))
            port = trial.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | {
            "TAIJI_DATA": str(data),
            "TAIJI_SECRET_KEY": "only-for-the-browser-tests-0123456789-0123456789-0123456789",
            "TAIJI_VAULT_KEYS": Fernet.generate_key().decode(),
            "TAIJI_JOIN_TOKEN": "join",
            "REDIS_URL": redis_url,
            "DJANGO_SETTINGS_MODULE": "taiji_site.settings",
            **more,
        }
        self._python("manage.py", "migrate", "--verbosity=0")
        self._python("manage.py", "collectstatic", "--noinput", "--verbosity=0")
        self.deed("build")
        self._log = (data / "server.log").open("w")
        arguments = ["-m", "uvicorn", "taiji_site.asgi:application", f"--port={port}", "--log-level=warning"]
        self._server = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=self._env, stderr=self._log
        )
        self._wait()

    def deed(self, name: str) -> str:
        """Do one of the deeds to the database while the server runs, and return what it prints."""
        return self._python("-m", "tests.browser.deeds", name).strip()

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of the server and of everything that works on its data."""
        return self._env

    @property
    def pid(self) -> int:
        """Return the server's process id."""
        return self._server.pid

    def stop(self) -> None:
        """Stop the server."""
        self._server.terminate()
        self._server.wait(10)
        self._log.close()

    def _python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=self._env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def _wait(self) -> None:
        until = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                httpx.get(f"{self.url}/login/", timeout=2).raise_for_status()
                return
            except httpx.HTTPError:
                if time.monotonic() > until or self._server.poll() is not None:
                    raise
                time.sleep(0.1)
