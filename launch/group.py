"""The group of processes under supervisor: its description, its start, its end."""

import contextlib
import dataclasses
import http.client
import json
import os
import signal
import socket
import subprocess
import time
import xmlrpc.client
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch import keys, locks
from launch.places import ROOT, Places
from launch.programs import Program
from launch.words import Refusal

# Paths reach supervisor through its environment: in its file a blank, a `;` or a `%` would mean something.
HEAD = """\
[supervisord]
nodaemon = true
silent = true
logfile = %(ENV_TAIJI_LOGS)s/supervisord.log
logfile_maxbytes = 5MB
logfile_backups = 2
pidfile = %(ENV_TAIJI_RUN)s/supervisord.pid
nocleanup = true
identifier = taiji

[unix_http_server]
file = %(ENV_TAIJI_RUN)s/supervisor.sock
chmod = 0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""
# launch/member.py sees to the pace of restarts, so supervisor itself never waits and never gives up.
PROGRAM = """
[program:{name}]
command = .venv/bin/python -I -S launch/member.py {name}
autorestart = true
startsecs = 0
stopwaitsecs = {stop_s}
redirect_stderr = true
stdout_logfile = %(ENV_TAIJI_PROGRAM_LOGS)s/{name}.log
stdout_logfile_maxbytes = 5MB
stdout_logfile_backups = 2
priority = {priority}
"""
# The programs of one supervisor group are stopped together, and groups one after the other: Valkey last.
GROUP = """
[group:product]
programs = {names}
priority = 20
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What supervisor says of one program."""

    name: str
    pid: int
    state: str


class _Socket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=5)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class _Transport(xmlrpc.client.Transport):
    """XML-RPC over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def make_connection(self, host: Any) -> _Socket:
        return _Socket(self.path)


def group_lock(places: Places) -> Path:
    """Return the lock that the supervisor of this data folder holds."""
    return places.data / "group.lock"


def members_lock(places: Places) -> Path:
    """Return the lock that every process of the group holds its share of."""
    return places.data / "members.lock"


def take(places: Places) -> int:
    """Take the group's lock and see an earlier group's processes off; raises Refusal where one is running."""
    lock = locks.take(group_lock(places))
    if lock is None:
        where = f" at {url}" if (url := _running_at(places)) else ""
        raise Refusal(
            f"Taiji is running already{where} with the data folder {places.data}: script/down stops it."
        )
    # A killed supervisor's processes get TERM from the kernel; one that does not heed it would run doubled.
    if not locks.end_holders(members_lock(places), wait_s=10.0):
        os.close(lock)
        raise Refusal(f"Processes of an earlier start do not end: {locks.holders(members_lock(places))}.")
    # Until the supervisor writes its own id: the last one's may be another program's by now, and script/down
    # signals what stands here.
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _running_at(places: Places) -> str:
    """Return the running group's address, as ours may be another; blank where it just starts."""
    try:
        web = json.loads((places.run / "members.json").read_text())["web"]["argv"]
        bind, port = (web[web.index(option) + 1] for option in ("--host", "--port"))
    except (OSError, ValueError, KeyError):
        return ""
    return dataclasses.replace(places, bind=bind, port=int(port)).url


def write(places: Places, programs: dict[str, Program]) -> None:
    """Describe the group in the run folder."""
    members = {name: dataclasses.asdict(program) for name, program in programs.items()}
    keys.write_private(places.run / "members.json", json.dumps(members, indent=1))
    parts = [
        PROGRAM.format(name=name, stop_s=program.stop_s, priority=10 if name == "valkey" else 20)
        for name, program in programs.items()
    ]
    names = ",".join(name for name in programs if name != "valkey")
    keys.write_private(places.run / "supervisord.conf", "".join([HEAD, *parts, GROUP.format(names=names)]))
    for mark in places.run.glob("*.started"):
        mark.unlink()


def environment(places: Places) -> dict[str, str]:
    """Return the environment of the group: this one's, without what would slow or mislead its Pythons."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return env | {
        "TAIJI_DATA": str(places.data),
        "TAIJI_RUN": str(places.run),
        "TAIJI_LOGS": str(places.logs),
        "TAIJI_PROGRAM_LOGS": str(places.logs).replace("%", "%%"),  # supervisor expands this one twice
        "TAIJI_PORT": str(places.port),
        "TAIJI_MEMBERS_LOCK": str(members_lock(places)),
    }


def start(places: Places, lock: int, *, tied: bool) -> "subprocess.Popen[bytes]":
    """Start the supervisor, which takes over the lock; `tied`: it ends when this process does."""
    supervisor = [
        str(places.python),
        "-m",
        "supervisor.supervisord",
        "-c",
        str(places.run / "supervisord.conf"),
    ]
    head = [str(places.python), "-m", "launch.head", str(lock), "tied" if tied else "free"]
    with (places.logs / "start.log").open("wb") as log:
        return subprocess.Popen(
            [*head, *supervisor],
            cwd=ROOT,
            env=environment(places),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[lock],
            start_new_session=True,
        )


def statuses(places: Places) -> list[Status]:
    """Ask the supervisor for its programs; none where it does not answer (yet)."""
    proxy = xmlrpc.client.ServerProxy("http://localhost", _Transport(str(places.run / "supervisor.sock")))
    try:
        found: Any = proxy.supervisor.getAllProcessInfo()
    except (OSError, http.client.HTTPException, xmlrpc.client.Error):
        return []
    return [Status(name=row["name"], pid=row["pid"], state=row["statename"]) for row in found]


def stop(places: Places) -> bool:
    """End the group and see that no process of it is left; say whether there was one."""
    lock = group_lock(places)
    try:
        if not lock.exists() or locks.is_free(lock):
            return not locks.end_holders(members_lock(places), wait_s=0.0)
    except PermissionError as error:
        raise Refusal(
            f"{error.filename} is another user's: only he, or root, can stop that group."
        ) from error
    _signal(lock, signal.SIGTERM)
    if not locks.is_free(lock, wait_s=20.0):
        _signal(lock, signal.SIGKILL)
    if not (locks.is_free(lock, wait_s=3.0) and locks.end_holders(members_lock(places), wait_s=10.0)):
        raise Refusal(f"These processes do not end: {locks.holders(members_lock(places))}.")
    return True


def _signal(lock: Path, number: signal.Signals) -> None:
    """Signal who holds the lock, whose id stands in it; a supervisor that we just started has a second for it."""
    for _ in range(20):
        text = lock.read_text().strip()
        if text and int(text) != os.getpid():
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(int(text), number)
            return
        time.sleep(0.05)
