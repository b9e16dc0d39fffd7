"""Documents without their secrets, for all that is shown, and secrets back in their places."""

from collections.abc import Mapping
from typing import Any

from jobs.portal.entries import KEPT, OBJECTS

NAMES = frozenset({"secret", "private_token"})


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with only a mark where a secret stands, and without a token."""
    return {name: _masked(value, env=name == "env") for name, value in document.items() if name != "Token"}


def _masked(value: Any, *, env: bool = False) -> Any:
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("secret") is True:
        return {name: inner for name, inner in value.items() if name != "value"}
    # The names of an environment are its owner's own: one called `secret` holds none for that.
    hides = frozenset() if env else NAMES
    return {
        name: KEPT if name in hides and isinstance(inner, str) and inner.strip() else _masked(inner)
        for name, inner in value.items()
    }


def restored(document: Any, before: Any) -> Any:
    """Return the document with the secrets of `before` where it has only their marks."""
    if document == KEPT:
        return before if _is_secret(before) else document
    if isinstance(document, dict) and isinstance(before, dict):
        return {name: restored(value, before.get(name)) for name, value in document.items()}
    if isinstance(document, list) and isinstance(before, list):
        padded = before + [None] * len(document)
        return [restored(value, old) for value, old in zip(document, padded, strict=False)]
    return document


def _is_secret(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and value.get("secret") is True)


def without_kept(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without secrets that a copy takes over: no verdict depends on them."""
    given = document.get("env", {})
    env = {n: value for n, value in given.items() if value != KEPT} if isinstance(given, dict) else given
    objects = {name: _with_any_secret(document[name]) for name in OBJECTS if name in document}
    return {**document, **objects, "env": env}


def _with_any_secret(value: Any) -> Any:
    """Return the value with some text in the places of secrets that a copy takes over."""
    if value == KEPT:
        return "kept"
    if isinstance(value, dict):
        return {name: _with_any_secret(inner) for name, inner in value.items()}
    return [_with_any_secret(inner) for inner in value] if isinstance(value, list) else value
