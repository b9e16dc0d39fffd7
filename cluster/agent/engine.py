"""Container engines: what is asked of one, and which one this host has."""

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cluster.agent.cgroups import CPU_PERIOD_US, cpu_quota_us
from cluster.agent.workload import reason

LABEL = "taiji.instance"  # on every container of ours: the id of its instance …
OWNER = "taiji.agent"  # … and the state folder of the agent that it belongs to
INSIDE = "/taiji"  # where a container sees its log, its work folder and what else is its own
NETWORKS = ("host", "bridge", "none")
WRITABLE = ("/tmp", "/var/tmp", "/run")  # in memory, where the rest of the image is read-only
CALL_S = 60  # how long an engine may take to answer; a pull has a limit of its own …
PING_S = 10  # … and so has the question whether it works at all
MODULES = {"podman": "cluster.agent.podman_engine", "docker": "cluster.agent.docker_engine"}


class EngineFault(Exception):
    """The engine said no; the message says why in one sentence."""


class EngineAway(Exception):
    """The engine did not answer, so nobody knows what it did; the message says why in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the host that is seen in a container."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContainer:
    """One container to be made; a limit of 0 is none."""

    name: str
    labels: Mapping[str, str]
    image: str
    argv: tuple[str, ...]  # in place of the image's entry point and command
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    work_dir: str
    user: str  # blank: the image's
    gpus: tuple[str, ...]  # uuids
    devices: tuple[str, ...]  # paths on the host, and the same in the container
    memory_mib: int
    cpus: float
    shm_mib: int
    pids: int
    network: str  # host, bridge or none
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a registry wants to know before it gives an image out."""

    username: str
    password: str


class Engine(Protocol):
    """One engine on this host; all calls raise EngineFault or EngineAway."""

    def ping(self) -> None:
        """Return if the engine works."""

    def is_rootless(self) -> bool:
        """Return whether its containers' root is no root of this host, but the user of the engine."""

    def has_image(self, image: str) -> bool:
        """Return whether the image is on this host."""

    def pull(self, image: str, credentials: Credentials | None) -> Iterator[str]:
        """Bring an image from its registry, saying how far it is; there is no limit to the time."""

    def create(self, wanted: NewContainer) -> None:
        """Make a container, unless there is one of this name already."""

    def start(self, name: str) -> None:
        """Start a container; one that was started already is left as it is."""

    def pid(self, name: str) -> int:
        """Return the pid, on this host, of a container's first process; 0: it does not run."""

    def execute(self, name: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        """Start a command in a running container, as the container's user, and do not wait for it."""

    def kill(self, name: str) -> None:
        """KILL a container's first process and with it all others; one that does not run is left alone."""

    def remove(self, name: str) -> None:
        """Remove a container, whatever it does, and what it wrote; one that is not there is no fault."""

    def owned(self, owner: str) -> dict[str, str]:
        """Return the containers that belong to an agent: instance id → name."""


def within(seconds: float, call: Callable[[], None]) -> None:
    """Call an engine that may hang: its own limit is longer than an end may take, and counts for each part of a call.

    Raises EngineFault, or EngineAway after so many seconds; what becomes of the call then nobody knows.
    """
    faults: list[EngineFault | EngineAway] = []

    def act() -> None:
        try:
            call()
        except (EngineFault, EngineAway) as fault:
            faults.append(fault)
        except Exception as error:  # a thread that only died would look like an answer
            faults.append(EngineFault(f"the call broke off: {reason(error)}"))

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise EngineAway(f"it has not answered for {seconds:g} s")
    if faults:
        raise faults[0]


def unreadable(error: Exception) -> EngineAway:
    """Return the fault of an engine whose answer its SDK fails on, in whatever way: nobody knows what it did."""
    return EngineAway(f"what it answers cannot be read ({type(error).__name__}: {reason(error)})")


def limits_of(wanted: NewContainer) -> dict[str, int]:
    """Return the container's limits in the words that both SDKs take."""
    limits: dict[str, int] = {}
    if wanted.memory_mib:
        # Swap counts too, else a task would be slowed down by it instead of being told.
        limits |= {"mem_limit": wanted.memory_mib * 2**20, "memswap_limit": wanted.memory_mib * 2**20}
    if wanted.cpus:
        limits |= {"cpu_period": CPU_PERIOD_US, "cpu_quota": cpu_quota_us(wanted.cpus)}
    if wanted.shm_mib:
        limits["shm_size"] = wanted.shm_mib * 2**20
    if wanted.pids:
        limits["pids_limit"] = wanted.pids
    return limits


def tagged(image: str) -> bool:
    """Return whether an image's name says which version of it is meant, by a tag or a digest."""
    return "@" in image or ":" in image.rpartition("/")[2]


def name_of(instance: str) -> str:
    """Return what the container of an instance is called: always the same, so that none is made twice."""
    return f"taiji-{instance}"


def open_engine(address: str, call_s: int = CALL_S) -> Engine:
    """Return the engine at `KIND:SOCKET`, such as `podman:/run/podman/podman.sock`; raises EngineFault, EngineAway.

    It may take `call_s` seconds to answer a call.
    """
    kind, _, socket = address.partition(":")
    try:
        module = importlib.import_module(MODULES[kind])
    except ImportError as error:
        raise EngineFault(
            f"The Python package {error.name} is not installed (pip install 'taiji-agent[{kind}]')"
        ) from error
    engine: Engine = module.connect(socket, call_s)
    return engine


def candidates(choice: str, environment: Mapping[str, str], uid: int) -> list[str]:
    """Return the addresses where an engine may be found, the one to be preferred first.

    `choice` is what the operator chose: auto, none, podman or docker (their usual sockets), or KIND:SOCKET.
    """
    if choice == "none":
        return []
    if ":" in choice:
        return [choice]
    usual = {"podman": "/run/podman/podman.sock", "docker": "/var/run/docker.sock"}
    if uid != 0:
        run = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
        usual["podman"] = f"{run}/podman/podman.sock"
    return [f"{kind}:{path}" for kind, path in usual.items() if choice in {"auto", kind}]


def is_address(text: str) -> bool:
    """Return whether it says where an engine is, as open_engine takes it."""
    return ":" in text and is_choice(text)


def is_choice(text: str) -> bool:
    """Return whether an operator may choose an engine in these words."""
    kind, colon, socket = text.partition(":")
    return (kind in MODULES and os.path.isabs(socket)) if colon else text in {"auto", "none", *MODULES}
