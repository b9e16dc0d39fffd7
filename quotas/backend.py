"""Passwords and permissions of people: Django's own, and what the roles of the platform add to them."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User

from quotas import access

VIEW = "view_"  # begins the names of permissions to look


class RoleBackend(ModelBackend):
    """Give operators every permission, and auditors those to look."""

    def get_user(self, user_id: int) -> User | None:
        """Return an active user with his role of the platform, which nearly every page asks for."""
        user = User.objects.select_related(access.ROLE).filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        """Say whether `user_obj` has the permission `app.verb_model`."""
        if access.is_operator(user_obj):
            return True
        if access.is_auditor(user_obj) and perm.partition(".")[2].startswith(VIEW):
            return True
        return bool(super().has_perm(user_obj, perm, obj))

    def has_module_perms(self, user_obj: Any, app_label: str) -> bool:
        """Say whether anything of this room is there for `user_obj`."""
        return access.sees_all(user_obj) or bool(super().has_module_perms(user_obj, app_label))
