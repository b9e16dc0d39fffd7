"""Tries to log in are counted, so that passwords cannot be guessed; and guessing at one shuts nobody else out.

A browser in which somebody logged in before bears a mark of that (OWASP's device cookie): its tries count for
itself alone. So who guesses at an account from elsewhere, or from behind the same address, does not keep its owner
from his usual browser.
"""

import hashlib
import math
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core import signing
from django.db import connection, models

from cluster import clock

WINDOW = timedelta(minutes=15)
MOST_OF_PAIR = 10  # failed tries at one account from one address in the window
MOST_OF_ACCOUNT = 50  # at one account, from browsers that are not known
MOST_OF_ADDRESS = 100  # from one address, which many may share
MOST_OF_BROWSER = 10  # at his account from a browser that is known
MOST_OF_OLD_PASSWORD = 10  # by who is logged in and wants another one
FORGOTTEN_AT_ONCE = 100  # rows; each try takes away some that count no more
DEVICE_COOKIE = "taiji_browser"
DEVICE_AGE_S = 180 * 86400
SALT = "quotas.throttle.device"


class LoginTries(models.Model):
    """How often something failed since the window began."""

    key = models.CharField(max_length=80, unique=True)
    failures = models.PositiveIntegerField()
    since = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.key}: {self.failures}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What is counted, and how many failures it may have in the window."""

    key: str
    most: int


def limits(account: str, address: str, device: str) -> list[Limit]:
    """Return what a try at the account counts for; `device` is the cookie of the browser, blank for none."""
    name = _name(account)
    if browser := _browser(device, name):
        return [Limit(key=f"browser:{browser}", most=MOST_OF_BROWSER)]
    return [
        Limit(key=f"pair:{_short(f'{name} {address}')}", most=MOST_OF_PAIR),
        Limit(key=f"account:{name}", most=MOST_OF_ACCOUNT),
        Limit(key=f"address:{_short(address)}", most=MOST_OF_ADDRESS),
    ]


def old_password(user_id: int) -> list[Limit]:
    """Return what a try at the old password of who is logged in counts for."""
    return [Limit(key=f"password:{user_id}", most=MOST_OF_OLD_PASSWORD)]


def claim(counted: Sequence[Limit]) -> int:
    """Count a try, before it is made, so that tries side by side count too; return the seconds to wait, 0 for none."""
    clock.follow()
    now = clock.now()
    _forget(now)
    waits = [_wait(limit, *_count(limit.key, now), now) for limit in counted]
    return math.ceil(max(waits))


def forgive(counted: Sequence[Limit]) -> None:
    """Take a try that succeeded off again; what is of this account and browser alone begins anew."""
    for limit in counted:
        row = LoginTries.objects.filter(key=limit.key)
        if limit.key.startswith(("account:", "address:")):
            row.filter(failures__gt=0).update(failures=models.F("failures") - 1)
        else:
            row.delete()


def device_cookie(account: str) -> str:
    """Return the mark of a browser in which the account has just logged in."""
    name = _name(account)
    return signing.dumps([name, secrets.token_urlsafe(12)], salt=SALT)


def _name(account: str) -> str:
    """Return what an account is called here, however its name was typed."""
    return _short(unicodedata.normalize("NFKC", account).casefold())


def _browser(device: str, name: str) -> str:
    """Return what the cookie calls the browser; blank where it is none of ours, too old, or of another account."""
    try:
        whose, browser = signing.loads(device, salt=SALT, max_age=DEVICE_AGE_S)
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(browser) if whose == name else ""


def _count(key: str, now: datetime) -> tuple[int, datetime]:
    """Add one, in a window of its own where the last one is over; return how many there are, and since when."""
    table, as_stored = LoginTries._meta.db_table, connection.ops.adapt_datetimefield_value
    begins, over = as_stored(now), as_stored(now - WINDOW)
    past = f"{table}.since < %s"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (key, failures, since) VALUES (%s, 1, %s) ON CONFLICT (key) DO UPDATE SET "
            f"failures = CASE WHEN {past} THEN 1 ELSE {table}.failures + 1 END, "
            f"since = CASE WHEN {past} THEN excluded.since ELSE {table}.since END",
            [key, begins, over, over],
        )
    return LoginTries.objects.values_list("failures", "since").get(key=key)


def _wait(limit: Limit, failures: int, since: datetime, now: datetime) -> float:
    return max(0.0, (since + WINDOW - now).total_seconds()) if failures > limit.most else 0.0


def _forget(now: datetime) -> None:
    old = LoginTries.objects.filter(since__lt=now - WINDOW).values_list("pk", flat=True)
    if found := list(old[:FORGOTTEN_AT_ONCE]):
        LoginTries.objects.filter(pk__in=found).delete()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]
