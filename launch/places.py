"""Where the product keeps what it needs: the checkout, the data folder, the run folder, address and port."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from launch.words import Refusal

ROOT = Path(__file__).resolve().parent.parent
# A Unix socket's path has 107 bytes at most, and supervisord first binds `supervisor.sock.PID`.
LONGEST_RUN_FOLDER = 107 - len("/supervisor.sock.4194304")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders and the address of one group of processes."""

    data: Path
    run: Path
    bind: str
    port: int

    @property
    def python(self) -> Path:
        """Return the Python of the virtual environment."""
        return ROOT / ".venv" / "bin" / "python"

    @property
    def logs(self) -> Path:
        """Return the folder of the group's own logs."""
        return self.data / "logs"

    @property
    def host(self) -> str:
        """Return the name under which this machine reaches the web server."""
        return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(
            self.bind, f"[{self.bind}]" if ":" in self.bind else self.bind
        )

    @property
    def url(self) -> str:
        """Return the address of the web server, as this machine reaches it."""
        return f"http://{self.host}:{self.port}"


def read() -> Places:
    """Return the places that the environment names; nothing is made yet."""
    data = Path(os.environ.get("TAIJI_DATA", "").strip() or ROOT / "var").expanduser().resolve()
    return Places(data=data, run=_run_folder(data), bind=_text("TAIJI_BIND", "127.0.0.1"), port=_port())


def prepare(places: Places) -> None:
    """Make the folders, for this user alone."""
    try:
        if not places.data.exists():
            places.data.mkdir(parents=True, mode=0o700)
        for folder in (places.logs, places.data / "agents", places.data / "storage"):
            folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0 and task_user() != "root":
            # He gets through to what is his, and sees nothing else.
            for folder in (places.data, places.data / "agents", places.data / "storage"):
                folder.chmod(folder.stat().st_mode | 0o011)
        (places.data / ".writable").write_bytes(b"")
        (places.data / ".writable").unlink()
    except OSError as error:
        raise Refusal(
            f"The data folder {places.data} cannot be written ({error.strerror}): "
            "make it writable, or name another with TAIJI_DATA."
        ) from error
    _make_private(places.run)
    _link(places)


def task_user() -> str:
    """Return whom root's own agents run tasks as: whoever starts them as root means it, unless he says otherwise."""
    return _text("TAIJI_AGENT_TASK_USER", "root")


def _text(name: str, default: str) -> str:
    return os.environ.get(name, "").strip() or default


def _port() -> int:
    text = _text("TAIJI_PORT", "8000")
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 65535:
        return int(text)
    raise Refusal(f"TAIJI_PORT={text!r} is not a port: set it to a number from 1 to 65535.")


def _run_folder(data: Path) -> Path:
    given = os.environ.get("TAIJI_RUN", "").strip()
    if given:
        return Path(given).resolve()
    own = data / "run"
    if len(os.fsencode(own)) <= LONGEST_RUN_FOLDER:
        return own
    mark = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    if session and len(os.fsencode(session)) < 60 and os.access(session, os.W_OK):
        return Path(session) / f"taiji-{mark}"
    return Path("/tmp") / f"taiji-{os.getuid()}-{mark}"


def _make_private(folder: Path) -> None:
    """Make `folder` with mode 0700, or see that what is there is ours: /tmp is everyone's."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise Refusal(f"{folder} belongs to someone else: name another folder with TAIJI_RUN.")
        folder.chmod(0o700)
    except OSError as error:
        raise Refusal(f"The run folder {folder} cannot be made ({error.strerror}): set TAIJI_RUN.") from error


def _link(places: Places) -> None:
    """Let `DATA/run` lead to the run folder, so that a command run by hand finds the sockets too."""
    link = places.data / "run"
    if places.run == link:
        return
    if link.is_symlink():
        link.unlink()
    if not link.exists():
        link.symlink_to(places.run)
