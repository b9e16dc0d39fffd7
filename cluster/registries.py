"""What registries of images want to know: read from the file in which Docker, Podman and Kubernetes keep it."""

import base64
import binascii
import functools
import json
import logging
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)
HUB = "docker.io"  # where a name without a registry comes from …
HUB_KEYS = (HUB, "https://index.docker.io/v1/", "index.docker.io")  # … and how it is called in that file


def credentials(image: str) -> dict[str, str]:
    """Return {"username", "password"} for the registry of `image`; empty where the file has none for it.

    A file that cannot be read is an error in the log: the pull then says that it was refused.
    """
    if not settings.REGISTRY_AUTH:
        return {}
    path = Path(settings.REGISTRY_AUTH)
    try:
        known = _read(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.error(
            "%s cannot be read, so images are pulled without a password: %s", path, type(error).__name__
        )
        return {}
    registry = registry_of(image)
    return next((known[key] for key in (HUB_KEYS if registry == HUB else (registry,)) if key in known), {})


def registry_of(image: str) -> str:
    """Return the registry that an image's name means: the part before the first slash where it looks like a host."""
    first, slash, _rest = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host else HUB


@functools.lru_cache(maxsize=1)
def _read(path: Path, _changed: int) -> dict[str, dict[str, str]]:
    found = {}
    for registry, entry in json.loads(path.read_text())["auths"].items():
        try:
            username, colon, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        except (binascii.Error, KeyError, UnicodeDecodeError):
            continue  # of a form that only the registry's own tools read
        if colon:
            found[registry.removesuffix("/")] = {"username": username, "password": password}
            found[registry] = found[registry.removesuffix("/")]
    return found
