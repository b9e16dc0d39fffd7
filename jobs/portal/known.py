"""What was read for one reader's list, and serves those that others ask for in the same moment (parts.py)."""

from collections.abc import MutableMapping

from django.http import HttpRequest

from jobs.portal.rows import Row

IN_SCOPE = "taiji.known"
Known = MutableMapping[tuple[str | None, int], Row]  # by language and task


def of(request: HttpRequest) -> Known:
    """Return the rows that were read a moment ago, to be added to; none where the request came alone."""
    found: Known = getattr(request, "scope", {}).get(IN_SCOPE, {})
    return found
