"""The task that a keeper is given: what of an order it needs, and what its host adds."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.agent.orders import Spec

# What git may take of the agent's environment: how this host reaches others.
TOOLS = (
    *("GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"),
)


def task_of(
    spec: Spec,
    env: dict[str, str],
    root: Path,
    container: dict[str, Any] | None = None,
    user: str = "",
    groups: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what a keeper is told: commands, their whole environment, folders to make below the storage.

    `container` is from container_spec.container_task; `user` the UID:GID to run as, blank for the agent's own;
    `groups` where control groups of plain processes are made, controller → folder.
    """
    return {
        "container": container,
        "limits": spec.limits,
        "groups": dict(groups or {}),
        "user": user,
        "command": spec.command,
        "exit_command": spec.exit_command,
        "grace_s": spec.grace_s,
        "wait_for_go": spec.wait_for_go,
        "code": spec.code,
        "data": list(spec.data),
        "prepare_s": spec.prepare_s,
        "tools": {name: os.environ[name] for name in TOOLS if name in os.environ},
        "env": env,
        "storage_root": str(root),
        "folders": [env["TAIJI_STORAGE"], env["TAIJI_TASK_DIR"]],
    }
