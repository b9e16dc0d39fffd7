"""What every page knows."""

from typing import Any

from django.http import HttpRequest

from jobs.engine import pulse


def scheduler(request: HttpRequest) -> dict[str, Any]:
    """Let a page of somebody who is logged in say when the scheduler last looked; asked only where it does."""
    user = getattr(request, "user", None)  # a page of an early fault has none
    return {"pulse": pulse.look} if user is not None and user.is_authenticated else {}
