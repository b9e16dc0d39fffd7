"""How that ends at once by which somebody is in: sessions, tokens, sockets."""

from django.contrib.auth.models import User
from django.db import transaction

from cluster import hints
from quotas.sessions import OwnedSession
from quotas.tokens import ApiToken


def topic(user_id: int) -> str:
    """Return the topic that says: what this user may see, or whether he is in at all, has changed."""
    return f"user.{user_id}"


def rights_changed(user_id: int) -> None:
    """Let the sockets of a user look anew, once the transaction at hand is committed, whether he may have them."""
    hints.publish(topic(user_id))


def end_sessions(user_id: int, *, keep: str | None = None) -> int:
    """Log the user out everywhere, but for the session `keep`; return how many sessions ended."""
    with transaction.atomic():
        ended, _by_model = (
            OwnedSession.objects.filter(user_id=user_id).exclude(session_key=keep or "").delete()
        )
        rights_changed(user_id)
    return ended


def shut_out(user: User) -> None:
    """End all that an inactive user is in by: his sessions, tokens and sockets. Active again, he logs in anew."""
    with transaction.atomic():
        ApiToken.objects.filter(user=user).delete()
        end_sessions(user.pk)


def leave_business(user_id: int, business_id: int) -> None:
    """End what a user is in a business by: the tokens for that alone, and sockets that show what he sees no more."""
    with transaction.atomic():
        ApiToken.objects.filter(user=user_id, business=business_id).delete()
        rights_changed(user_id)
