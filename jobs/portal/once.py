"""Keys of questions, so that one that is answered twice is acted on once."""

import uuid

from jobs.portal.doors import PortalRequest

LENGTH = len(uuid.uuid4().hex)


def new() -> str:
    """Return the key of a question that is asked now."""
    return uuid.uuid4().hex


def key(request: PortalRequest, kind: str) -> str | None:
    """Return the key of the question that is answered, among those of its kind; None where it is none of ours."""
    given = request.POST.get("key", "")
    ours = given.isascii() and given.isalnum() and len(given) == LENGTH
    return f"{kind}-{given}" if ours else None
