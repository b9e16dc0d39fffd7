"""From a row's order to what its pod is made of: the only place of this room where secrets are in clear."""

import re
from collections.abc import Mapping
from typing import Any

from cryptography.fernet import InvalidToken

from cluster import pod_tokens, vault
from cluster.kubernetes.hosts import Asked
from cluster.kubernetes.pods import Member
from cluster.registries import registry_of

REGISTRY, TOKEN = "container.registry.", "code.token"
DATA_KEY = re.compile(r"data\.(\d+)\.secret")


def member_of(asked: Asked, spec: Mapping[str, Any], sealed: str) -> Member | None:
    """Return the instance as its pod needs it; None where its secrets cannot be read with the present keys."""
    try:
        secrets = vault.unseal(sealed)
    except InvalidToken:
        return None
    seat, code = asked.seat, spec.get("code") or {}
    registry = {
        name.removeprefix(REGISTRY): value for name, value in secrets.items() if name.startswith(REGISTRY)
    }
    image = str((spec.get("container") or {}).get("image", ""))
    return Member(
        id=seat.id,
        gang=seat.gang,
        rank=seat.rank,
        host_id=seat.host,
        node=seat.node,
        spec=spec,
        resources=asked.resources,
        secret_env={name: value for name, value in secrets.items() if "." not in name},
        code_token=secrets.get(TOKEN, ""),
        data_keys={found[1]: value for name, value in secrets.items() if (found := DATA_KEY.fullmatch(name))},
        pod_token=pod_tokens.issue(seat.id) if code.get("kind") == "upload" else "",
        registry={**registry, "name": registry_of(image)} if registry else {},
    )
