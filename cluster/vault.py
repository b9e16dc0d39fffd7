"""Secrets at rest: encrypted with the newest key, read with any of the keys."""

import json
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def _keys() -> MultiFernet:
    if not settings.VAULT_KEYS:
        raise ImproperlyConfigured("TAIJI_VAULT_KEYS is not set: secrets can be neither stored nor read.")
    return _made(tuple(settings.VAULT_KEYS))


@lru_cache(maxsize=1)
def _made(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def seal(values: dict[str, str]) -> str:
    """Return `values` encrypted; the empty text for no values."""
    return _keys().encrypt(json.dumps(values).encode()).decode() if values else ""


def unseal(sealed: str) -> dict[str, str]:
    """Return the values of a text made by `seal`; raises cryptography.fernet.InvalidToken for a wrong key."""
    return dict(json.loads(_keys().decrypt(sealed.encode()))) if sealed else {}


def has_newest_key(sealed: str) -> bool:
    """Say whether a text was made with the newest key."""
    try:
        Fernet(settings.VAULT_KEYS[0]).decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True


def renewed(sealed: str) -> str:
    """Return a text encrypted anew with the newest key; raises InvalidToken where no key reads it."""
    return _keys().rotate(sealed.encode()).decode()
