"""Tokens with which a pod asks the platform for the code of its instance, and for nothing else."""

import uuid

from django.core import signing

MARK = "pod."
_SALT = "taiji.pod"


def issue(instance: uuid.UUID) -> str:
    """Return the token of an instance; it is good for as long as that lives."""
    return MARK + signing.dumps(str(instance), salt=_SALT)


def instance_of(token: str) -> uuid.UUID | None:
    """Return whose token it is; None where it is none of ours."""
    if not token.startswith(MARK):
        return None
    try:
        return uuid.UUID(signing.loads(token.removeprefix(MARK), salt=_SALT))
    except (signing.BadSignature, ValueError):
        return None
