"""The generated secrets of a data folder: made once, readable by its owner alone."""

import base64
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from launch.words import Refusal

MADE: dict[str, Callable[[], str]] = {
    "secret_key": lambda: secrets.token_urlsafe(48),
    "vault_keys": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),  # a Fernet key
    "join_token": lambda: secrets.token_urlsafe(32),
}


def ensure(data: Path) -> dict[str, str]:
    """Return the secrets of the folder, making those that are missing; what is there is never changed.

    Raises Refusal where they cannot be read, or are gone while the database is there.
    """
    path, database = data / "secrets.json", data / "taiji.sqlite3"
    if database.exists() and not path.exists() and not os.environ.get("TAIJI_VAULT_KEYS", "").strip():
        # New keys would be made in silence, and no stored secret could ever be read again.
        raise Refusal(
            f"{path} is missing beside {database.name}: restore it from a backup, it holds the keys "
            "(a file with {} in it starts with new ones; secrets of tasks are lost then)."
        )
    found = _read(path)
    missing = {name: make() for name, make in MADE.items() if name not in found}
    if missing:
        write_private(path, json.dumps(found | missing, indent=1) + "\n")
    return found | missing


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Refusal(
            f"{path} cannot be read ({error}): restore it from a backup, it holds the keys."
        ) from error
    return {str(name): str(value) for name, value in found.items()}


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 so that after a crash it is whole or as it was."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
