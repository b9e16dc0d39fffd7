"""Whether somebody who was read a while ago is still in, and still is what he was: the one place that says so.

He is in while his session is there, is not over and is his, while he is active, and while his password is the one that
he had: a new one ends what was begun with the old.
"""

from django.contrib.auth.models import User

from cluster import clock
from cluster.prepared import Prepared
from quotas import access
from quotas.access import AnyUser
from quotas.sessions import OwnedSession

_session = Prepared(
    lambda key: OwnedSession.objects.filter(session_key=key).values_list("expire_date", "user_id"),
    str,
)
_owner = Prepared(
    lambda key: User.objects.filter(
        pk__in=OwnedSession.objects.filter(session_key=key).values("user_id")
    ).values_list(*("pk", "password", "is_active", "is_staff", "is_superuser", f"{access.ROLE}__role")),
    str,
)


def now(user: AnyUser, session_key: str | None) -> User | None:
    """Return who was read as `user` as he is now; None where he is in no more. Without a session he needs none."""
    if user.pk is None or (session_key is not None and not _is_his(user.pk, session_key)):
        return None
    same = User.objects.filter(pk=user.pk, password=getattr(user, "password", ""), is_active=True)
    return same.select_related(access.ROLE).first()


def is_as_read(user: User, session_key: str) -> bool:
    """Say whether he is in, with the rights that `user` has, his businesses aside: by two queries written already."""
    role = getattr(user, access.ROLE, None)
    rights = (user.is_active, user.is_staff, user.is_superuser, role.role if role else None)
    if not user.is_active or not _is_his(user.pk, session_key):
        return False
    return _owner.ask(session_key) == [(user.pk, user.password, *rights)]


def _is_his(user_id: int, session_key: str) -> bool:
    """Say whether the session is there, not over, and of this user."""
    at = clock.now()
    return any(ends > at and owner == user_id for ends, owner in _session.ask(session_key))
