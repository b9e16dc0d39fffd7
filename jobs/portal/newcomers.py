"""Whoever belongs to no business can submit nothing: what he is told, and whom he may ask."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q

from quotas import access
from quotas.models import PlatformRole

NAMED = 5  # operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """Somebody without a business."""

    may_add: bool  # an operator, before there is any business
    ask: list[str]  # operators, by their full names where they have one, with their addresses


def of(user: User) -> Newcomer | None:
    """Return what to tell `user`; None where there is a business that he may submit for."""
    if access.businesses_of(user).exists():
        return None
    if access.is_operator(user):
        return Newcomer(may_add=True, ask=[])
    operator = Q(is_superuser=True) | Q(platform_role__role=PlatformRole.Role.OPERATOR)
    found = User.objects.filter(operator, is_active=True).order_by("username")[:NAMED]
    return Newcomer(may_add=False, ask=[_named(one) for one in found])


def _named(user: User) -> str:
    name = user.get_full_name() or user.get_username()
    return f"{name} <{user.email}>" if user.email else name
