"""What tests of containers have in common: specs that name an image, and the end of one."""

import json
from pathlib import Path
from typing import Any

from tests.agent.conftest import Machine, marked, new_id, spec
from tests.agent.engines import IMAGE, Service
from tests.agent.platform import Platform

LOOP = "while :; do sleep 0.05; done"
LONG_S = 60.0  # starting and removing a container takes a loaded machine a while


def contained(command: str | None, container: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a spec that runs `command` in a container."""
    return spec(command, container={"image": IMAGE, **(container or {})}, **changes)


def gone(platform: Platform, instance: str) -> dict[str, Any]:
    """Return the last report of `instance`, of which nothing may be left."""
    report = platform.phase(instance, "gone", LONG_S)
    assert marked(instance) == []
    return report


def ran(platform: Platform, podman: Service, command: str, **changes: Any) -> tuple[dict[str, Any], bytes]:
    """Run `command` in a container to its end; return the last report and the log."""
    instance = new_id()
    platform.want(instance, contained(command, **changes))
    report = gone(platform, instance)
    platform.until(lambda: len(platform.logs.get(instance, b"")) == report["log_bytes"])
    assert f"taiji-{instance}" not in podman.containers()
    return report, bytes(platform.logs.get(instance, b""))


def holds(path: Path, word: bytes) -> bool:
    """Return whether a file has these bytes; one that is gone has none."""
    try:
        return word in path.read_bytes()
    except OSError:
        return False


def keeper_of(host: Machine, instance: str) -> int:
    """Return the pid of the keeper of `instance`."""
    return int(json.loads((host.folder(instance) / "claim.json").read_text())["pid"])


def folder_of(tmp_path: Path) -> Path:
    """Return the folder of a new instance, as an agent makes it."""
    folder = tmp_path / new_id()
    (folder / "work").mkdir(parents=True)
    (folder / "hosts").touch()
    return folder


def task_of(tmp_path: Path, engine: str, **changes: Any) -> dict[str, Any]:
    """Return what the keeper of a container is told that looks at its devices."""
    (tmp_path / "storage").mkdir(exist_ok=True)
    container = {
        "image": IMAGE, "engine": engine, "owner": str(tmp_path), "registry": None, "pull_timeout_s": 5,
        "gpus": [], "devices": ["/dev/nvidiactl"], "besides": [], "memory_mib": 0, "cpus": 0, "shm_mib": 0, "pids": 0,
        "network": "none", "read_only": False, **changes,
    }  # fmt: skip
    env = {"TAIJI_STORAGE": str(tmp_path / "storage")}
    return {
        "command": "ls /dev; sleep 60",
        "user": "",
        "env": env,
        "exit_command": "",
        "container": container,
    }
