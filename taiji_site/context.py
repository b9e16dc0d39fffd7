"""What every page knows."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from jobs.engine import pulse
from quotas import access


def scheduler(request: HttpRequest) -> dict[str, Any]:
    """Let a page of somebody who is logged in say when the scheduler last looked; asked only where it does."""
    user = getattr(request, "user", None)  # a page of an early fault has none
    return {"pulse": pulse.look} if user is not None and user.is_authenticated else {}


def roles(request: HttpRequest) -> dict[str, Any]:
    """Let a page show the ways that only some may go; asked only where it does."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    return {"enters_admin": admin.site.has_permission(request), "is_overseer": access.sees_all(user)}
