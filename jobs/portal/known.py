"""What was read for one reader's list, and serves those that others ask for in the same moment (parts.py)."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field

from django.http import HttpRequest

from jobs.pages import Edges
from jobs.portal.rows import Row

IN_SCOPE = "taiji.known"


@dataclass(frozen=True, slots=True)
class Known:
    """What lists have in common; it is added to."""

    rows: MutableMapping[tuple[str | None, int], Row] = field(default_factory=dict)  # by language and task
    edges: Edges = field(default_factory=dict)


def of(request: HttpRequest) -> Known:
    """Return what was read a moment ago; nothing where the request came alone."""
    found: Known | None = getattr(request, "scope", {}).get(IN_SCOPE)
    return Known() if found is None else found
