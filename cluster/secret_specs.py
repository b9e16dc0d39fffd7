"""Secrets of an instance by where they go: a variable of its environment, or a dotted path into its spec."""

from collections.abc import Mapping
from typing import Any


def filled(spec: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """Return the spec with its secrets: NAME goes into `env`, `data.0.secret` into that place."""
    env = {name: value for name, value in secrets.items() if "." not in name}
    full: Any = {**spec, "env": {**spec.get("env", {}), **env}}
    for path, value in secrets.items():
        if "." in path:
            full = _put(full, path.split("."), value)
    return dict(full)


def _put(value: Any, path: list[str], secret: str) -> Any:
    """Return `value` with the secret at `path`; what is on the way is copied, never changed."""
    if not path:
        return secret
    step, *rest = path
    if isinstance(value, list):
        return [_put(item, rest, secret) if str(place) == step else item for place, item in enumerate(value)]
    return {**value, step: _put(value.get(step, {}), rest, secret)}
