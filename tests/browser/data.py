"""The folder in which a server keeps its data, and what else works on it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cryptography.fernet import Fernet

ROOT = Path(__file__).parents[2]
VAULT_KEY = Fernet.generate_key().decode()  # the same for a folder and its copies


class Data:
    """One folder with a database."""

    def __init__(self, folder: Path, redis_url: str, **more: str) -> None:
        """Name the folder; `more`: variables of the environment of all that works on it."""
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"} | {
            "TAIJI_DATA": str(folder),
            "TAIJI_SECRET_KEY": "only-for-the-browser-tests-0123456789-0123456789-0123456789",
            "TAIJI_VAULT_KEYS": VAULT_KEY,
            "TAIJI_JOIN_TOKEN": "join",
            "REDIS_URL": redis_url,
            "DJANGO_SETTINGS_MODULE": "tests.browser.settings",
            **more,
        }
        self._doer: subprocess.Popen[str] | None = None

    def make(self) -> None:
        """Make the database and its small world."""
        self._manage("migrate", "--verbosity=0")
        self._manage("collectstatic", "--noinput", "--verbosity=0")
        self.deed("build")

    def deed(self, name: str) -> str:
        """Do one of the deeds to the database, and return what it prints."""
        self._doer = doer = self._doer or self._start_doer()
        assert doer.stdin is not None
        assert doer.stdout is not None
        print(name, file=doer.stdin, flush=True)
        answer = json.loads(doer.stdout.readline() or '{"error": "no deed can be done any more"}')
        if answer["error"]:
            raise RuntimeError(answer["error"])
        return str(answer["said"]).strip()

    def close(self) -> None:
        """Let no more deeds be done."""
        if self._doer is not None:
            self._doer.communicate()  # it ends when nothing more is asked of it
            self._doer = None

    def _start_doer(self) -> "subprocess.Popen[str]":
        """Start what does deeds: once for all of them, since its start is what takes long."""
        command, pipe = [sys.executable, "-m", "tests.browser.deeds"], subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env=self.env, stdin=pipe, stdout=pipe, text=True)

    def _manage(self, *arguments: str) -> None:
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
