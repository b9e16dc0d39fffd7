"""Docker, or whatever speaks its API."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import requests
from docker import APIClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import DeviceRequest, Mount

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


def connect(socket: str, call_s: int) -> "Docker":
    """Return the Docker that listens at `socket` and answers within `call_s`; raises EngineAway."""
    with _told():
        return Docker(APIClient(base_url=f"unix://{socket}", version="auto", timeout=call_s))


class Docker:
    """One Docker daemon; see engine.Engine."""

    def __init__(self, client: APIClient) -> None:
        """Call it with `client`."""
        self._client = client

    def ping(self) -> None:
        """Return if the engine works."""
        with _told():
            self._client.ping()

    def is_rootless(self) -> bool:
        """Return whether its containers' root is no root of this host."""
        with _told():
            return "name=rootless" in self._client.info().get("SecurityOptions", [])

    def has_image(self, image: str) -> bool:
        """Return whether the image is on this host."""
        with _told():
            try:
                self._client.inspect_image(image)  # type: ignore[no-untyped-call]  # a gap of its stubs
            except ImageNotFound:
                return False
            return True

    def pull(self, image: str, credentials: Credentials | None) -> Iterator[str]:
        """Bring an image from its registry, saying how far it is."""
        # Never what lies in the agent's own home: the operator gives credentials to the platform.
        auth = {"username": credentials.username, "password": credentials.password} if credentials else {}
        with _told():
            # Without a tag it would bring all there are.
            tag = None if tagged(image) else "latest"
            for line in self._client.pull(image, tag, stream=True, decode=True, auth_config=auth):
                if fault := line.get("error"):
                    raise EngineFault(str(fault).strip())
                if words := str(line.get("status") or line.get("stream") or "").strip():
                    yield f"{line['id']}: {words}" if line.get("id") else words

    def create(self, wanted: NewContainer) -> None:
        """Make a container, unless there is one of this name already."""
        with _told():
            try:
                self._client.inspect_container(wanted.name)
            except NotFound:
                self._client.create_container(
                    wanted.image,
                    name=wanted.name,
                    labels=dict(wanted.labels),
                    entrypoint=list(wanted.argv[:1]),
                    command=list(wanted.argv[1:]),
                    environment=dict(wanted.env),
                    working_dir=wanted.work_dir,
                    user=wanted.user or None,
                    host_config=self._client.create_host_config(**_settings(wanted)),
                )

    def start(self, name: str) -> None:
        """Start a container."""
        with _told():
            self._client.start(name)

    def pid(self, name: str) -> int:
        """Return the pid of a container's first process."""
        with _told():
            return int(self._client.inspect_container(name)["State"]["Pid"])

    def execute(self, name: str, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        """Start a command in a running container."""
        with _told():
            made = self._client.exec_create(name, list(argv), environment=dict(env))
            self._client.exec_start(made["Id"], detach=True)

    def kill(self, name: str) -> None:
        """KILL a container."""
        with contextlib.suppress(EngineFault), _told():  # not there, or not running
            self._client.kill(name, "SIGKILL")

    def remove(self, name: str) -> None:
        """Remove a container."""
        with _told(), contextlib.suppress(NotFound):
            self._client.remove_container(name, v=True, force=True)

    def owned(self, owner: str) -> dict[str, str]:
        """Return the containers that belong to an agent."""
        with _told():
            found = self._client.containers(all=True, filters={"label": f"{OWNER}={owner}"})
            return {str(one["Labels"].get(LABEL)): str(one["Names"][0]).lstrip("/") for one in found}


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say in our words what the engine or the line to it says."""
    try:
        yield
    except APIError as error:
        raise EngineFault(str(error.explanation or error).strip().rstrip(".")) from error
    except (requests.RequestException, OSError) as error:
        raise EngineAway(str(error)) from error
    except DockerException as error:
        # Also what it says when it cannot even ask which version of its API to speak.
        raise EngineAway(str(error)) from error
    except (EngineFault, EngineAway):
        raise
    except Exception as error:  # on garbage the SDK fails in any way
        raise unreadable(error) from error


def _settings(wanted: NewContainer) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "mounts": [
            Mount(target=mount.target, source=mount.source, type="bind", read_only=mount.read_only)
            for mount in wanted.mounts
        ],
        "network_mode": wanted.network,
        "read_only": wanted.read_only,
        "security_opt": [
            "no-new-privileges",
            "label=disable",  # SELinux: the storage is shared, so it cannot carry one container's
        ],
        "log_config": {"Type": "none", "Config": {}},  # the command writes its log itself
        "restart_policy": {"Name": ""},
        "devices": [f"{path}:{path}:rwm" for path in wanted.devices],
    }
    if wanted.gpus:
        settings["device_requests"] = [DeviceRequest(device_ids=list(wanted.gpus), capabilities=[["gpu"]])]
    if wanted.read_only:
        settings["tmpfs"] = dict.fromkeys(WRITABLE, "")
    return settings | limits_of(wanted)
