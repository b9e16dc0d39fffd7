"""How code comes to a pod: an init container that runs the agent's own preparation, and what it is told."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from cluster.kubernetes import names
from cluster.kubernetes.options import POD_FOLDER, RUN_FOLDER, WORK_FOLDER, Options

CODE_TOKEN, POD_TOKEN = "TAIJI_CODE_TOKEN", "TAIJI_POD_TOKEN"
HUB = "docker.io"
HUB_KEY = "https://index.docker.io/v1/"  # how the kubelet looks for Docker's own registry


def container(spec: Mapping[str, Any], options: Options, *, secret: str | bool) -> dict[str, Any]:
    """Return the init container that brings the code of `spec`; `secret`: where its tokens are, if it has any."""
    told = {name: spec.get(name) for name in ("code", "prepare_s", "command")}
    values = {"TAIJI_CODE": json.dumps(told), "TAIJI_PLATFORM_URL": options.platform_url}
    env: list[dict[str, Any]] = [
        {"name": name, "value": value.replace("$", "$$")} for name, value in values.items()
    ]
    if secret:
        env += [
            {"name": name, "valueFrom": from_secret(str(secret), name, optional=True)}
            for name in (CODE_TOKEN, POD_TOKEN)
        ]
    return {
        "name": names.CODE,
        "image": options.tools_image,
        "command": ["python3", "-m", "cluster.agent.in_pod", RUN_FOLDER, POD_FOLDER],
        "workingDir": WORK_FOLDER,
        "env": env,
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "work", "mountPath": WORK_FOLDER},
            {"name": "run", "mountPath": RUN_FOLDER},
            {"name": "pod", "mountPath": POD_FOLDER, "readOnly": True},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def from_secret(secret: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    """Return where a variable's value comes from."""
    reference: dict[str, Any] = {"name": secret, "key": key}
    return {"secretKeyRef": reference | ({"optional": True} if optional else {})}


def docker_config(registry: Mapping[str, str]) -> str:
    """Return the file that the kubelet reads a registry's password from."""
    name = registry.get("name") or HUB
    pair = f"{registry['username']}:{registry['password']}".encode()
    entry = {
        "username": registry["username"],
        "password": registry["password"],
        "auth": base64.b64encode(pair).decode(),
    }
    return json.dumps({"auths": {HUB_KEY if name == HUB else name: entry}})
