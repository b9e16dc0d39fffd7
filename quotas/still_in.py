"""Whether somebody who was read a while ago is still in, and still is what he was: by two queries written already."""

from django.contrib.auth.models import User

from cluster import clock
from cluster.prepared import Prepared
from quotas import access
from quotas.sessions import OwnedSession

_ends = Prepared(
    lambda key: OwnedSession.objects.filter(session_key=key).values_list("expire_date"),
    str,
)
_owner = Prepared(
    lambda key: User.objects.filter(
        pk__in=OwnedSession.objects.filter(session_key=key).values("user_id")
    ).values_list(*("pk", "password", "is_active", "is_staff", "is_superuser", f"{access.ROLE}__role")),
    str,
)


def is_as_read(user: User, session_key: str) -> bool:
    """Say whether he is in with the session, with the password and the rights that `user` has; his businesses aside.

    A new password ends what was begun with the old one.
    """
    role = getattr(user, access.ROLE, None)
    rights = (user.is_active, user.is_staff, user.is_superuser, role.role if role else None)
    ends = _ends.ask(session_key)
    if not ends or not user.is_active or ends[0][0] <= clock.now():
        return False
    return _owner.ask(session_key) == [(user.pk, user.password, *rights)]
