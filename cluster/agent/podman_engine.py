"""Podman, by its own API (libpod): the one that gives a container its cards by CDI."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import requests
from podman import PodmanClient
from podman.errors import APIError, ImageNotFound, NotFound, PodmanError

from cluster.agent import processes
from cluster.agent.engine import (
    LABEL,
    OWNER,
    WRITABLE,
    Credentials,
    EngineAway,
    EngineFault,
    NewContainer,
    limits_of,
    tagged,
    unreadable,
)

CDI_KIND = "nvidia.com/gpu"


def connect(socket: str, call_s: int) -> "Podman":
    """Return the Podman that listens at `socket` and answers within `call_s`; nothing is called yet."""
    url = f"unix://{socket}"
    return Podman(PodmanClient(base_url=url, timeout=call_s), PodmanClient(base_url=url))


class Podman:
    """One Podman service; see engine.Engine."""

    def __init__(self, client: PodmanClient, patient: PodmanClient) -> None:
        """Call it with `client`, or `patient` where an answer may take any time."""
        self._client = client
        self._patient = patient

    def ping(self) -> None:
        """Return if the engine works."""
        with _told():
            if not self._client.ping():
                raise EngineFault("Podman does not answer its ping")

    def is_rootless(self) -> bool:
        """Return whether its containers' root is no root of this host."""
        with _told():
            client: Any = self._client
            return bool(client.info()["host"]["security"]["rootless"])

    def has_image(self, image: str) -> bool:
        """Return whether the image is on this host."""
        with _told():
            return bool(self._client.images.exists(image))

    def pull(self, image: str, credentials: Credentials | None) -> Iterator[str]:
        """Bring an image from its registry, saying how far it is."""
        auth = {"username": credentials.username, "password": credentials.password} if credentials else None
        with _told():
            repository, tag = image.rsplit(":", 1) if tagged(image) and "@" not in image else (image, None)
            lines: Any = self._patient.images.pull(
                repository,
                tag,
                auth_config=auth,
                tls_verify=None,  # as this host's registries.conf says, which is yes where it says nothing
                stream=True,
                decode=True,
                compatMode=False,
            )
            for line in lines:
                if fault := line.get("error"):
                    raise EngineFault(str(fault).strip())
                if words := str(line.get("stream") or line.get("status") or "").strip():
                    yield words

    def create(self, wanted: NewContainer) -> None:
        """Make a container, unless there is one of this name already."""
        with _told():
            if not self._client.containers.exists(wanted.name):
                self._client.containers.create(wanted.image, **_settings(wanted))

    def start(self, name: str) -> None:
        """Start a container."""
        with _told():
            self._client.containers.get(name).start()

    def pid(self, name: str) -> int:
        """Return the pid of a container's first process."""
        with _told():
            return int(self._client.containers.get(name).attrs["State"]["Pid"])

    def execute(self, name: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        """Start a command in a running container."""
        with _told():
            self._client.containers.get(name).exec_run(list(argv), environment=dict(env), detach=True)

    def kill(self, name: str) -> None:
        """KILL a container."""
        with contextlib.suppress(EngineFault), _told():  # not there, or not running
            self._client.containers.get(name).kill("SIGKILL")

    def remove(self, name: str) -> None:
        """Remove a container."""
        with _told(), contextlib.suppress(NotFound):
            # Not looked at before: one that an engine had half removed when it was killed cannot be read any more.
            self._client.containers.remove(name, v=True, force=True)
        end_monitored(name)

    def owned(self, owner: str) -> dict[str, str]:
        """Return the containers that belong to an agent."""
        with _told():
            found = self._client.containers.list(all=True, filters={"label": f"{OWNER}={owner}"})
            return {str(one.labels.get(LABEL)): str(one.name) for one in found}


def end_monitored(name: str) -> None:
    """KILL what the runtime made for a container that the engine knows nothing of any more.

    An engine that is killed while it starts a container forgets what it had begun: the container's first process,
    which waits to be let go, and the monitor above it stay for ever.
    """

    def left() -> list[processes.Process]:
        everything = processes.table()
        monitors = [process for process in everything.values() if _monitors(process, name)]
        return [*processes.below([monitor.pid for monitor in monitors], everything), *monitors]

    if left():
        processes.kill_all(left)


def _monitors(process: processes.Process, name: str) -> bool:
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    named = b"-n" in words and words[words.index(b"-n") + 1] == name.encode()
    return named and os.path.basename(words[0]) == b"conmon"


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say in our words what the engine or the line to it says."""
    try:
        yield
    except ImageNotFound as error:
        raise EngineFault(_sentence(error)) from error
    except APIError as error:
        # Without a response the call did not come back: whether it was done is not known.
        kind = EngineFault if error.response is not None else EngineAway
        raise kind(_sentence(error)) from error
    except (requests.RequestException, OSError) as error:  # among them an answer that is not JSON
        raise EngineAway(str(error)) from error
    except (PodmanError, ValueError, TypeError) as error:
        raise EngineFault(str(error)) from error
    except (EngineFault, EngineAway):
        raise
    except Exception as error:  # on garbage the SDK fails in any way, also with a bare Exception
        raise unreadable(error) from error


def _sentence(error: APIError) -> str:
    cause = error.__cause__ if error.response is None else None
    return str(cause or error.explanation or error).strip().rstrip(".")


def _settings(wanted: NewContainer) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "name": wanted.name,
        "labels": dict(wanted.labels),
        "entrypoint": list(wanted.argv[:1]),
        "command": list(wanted.argv[1:]),
        "environment": dict(wanted.env),
        "mounts": [
            {
                "type": "bind",
                "source": mount.source,
                "target": mount.target,
                "read_only": mount.read_only,
            }
            for mount in wanted.mounts
        ]
        + [{"type": "tmpfs", "target": path} for path in WRITABLE if wanted.read_only],
        "working_dir": wanted.work_dir,
        "user": wanted.user or None,
        "devices": [*(f"{CDI_KIND}={uuid}" for uuid in wanted.gpus), *wanted.devices],
        "network_mode": wanted.network,
        "read_only": wanted.read_only,
        "no_new_privileges": True,
        "security_opt": [
            "disable"
        ],  # SELinux labels: the storage is shared, so it cannot carry one container's
        "log_config": {"Type": "none"},  # the command writes its log itself
        "restart_policy": {"Name": "no"},
        "use_config_proxy": False,
    }
    return settings | limits_of(wanted)
