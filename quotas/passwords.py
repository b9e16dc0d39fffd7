"""One's own password, changed by page and API alike: tries at the old one count, the new one ends what it began."""

from django.contrib.auth import password_validation
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction

from quotas import audit, presence, throttle

LONGEST = 4096  # characters that the API takes; the page takes what a request may hold


class TooManyTries(Exception):
    """The old password was wrong too often; `wait_s` says how long to wait."""

    def __init__(self, wait_s: int) -> None:
        super().__init__()
        self.wait_s = wait_s


def is_old(user: User, given: str) -> bool:
    """Say whether it is the password of the user; raises TooManyTries before it is looked at."""
    counted = throttle.old_password(user.pk)
    if wait_s := throttle.claim(counted):
        raise TooManyTries(wait_s)
    right = user.check_password(given)
    if right:
        throttle.forgive(counted)
    return right


def faults(user: User, new: str) -> list[tuple[str, str]]:
    """Return why the user may not have this password, each in a code and a sentence."""
    try:
        password_validation.validate_password(new, user)
    except ValidationError as refused:
        return [(one.code or "value", " ".join(one.messages)) for one in refused.error_list]
    return []


def change(user: User, new: str, *, keep: str | None = None) -> None:
    """Set a new password, and log the user out everywhere but in the session `keep`; his tokens stay."""
    with transaction.atomic():
        user.set_password(new)
        user.save(update_fields=["password"])
        presence.end_sessions(user.pk, keep=keep)
        audit.note("password.changed", by=user, name="")
