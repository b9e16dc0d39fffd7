"""The lease of the pass: one holder at a time, with a number that a stale holder cannot have."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.db.models.expressions import Combinable
from django.db.models.functions import Now

from cluster import clock
from jobs.engine.patience import Bounded
from jobs.models import PassLease

LEASE_S = 10  # a holder that died is replaced after this
LOOK_AGAIN_S = 0.02


class StaleHolder(Exception):
    """Another process took the lease meanwhile: nothing of this pass may be written any more."""


def take(holder: str, wait_s: float, clock: Callable[[], float] = time.monotonic) -> int | None:
    """Take the lease and return its fencing number; None where another holds it for all of `wait_s`."""
    PassLease.objects.get_or_create(pk=1, defaults={"expires_at": Now()})
    until = clock() + wait_s
    while True:
        free = PassLease.objects.filter(_is_free(), pk=1)
        fence = free.values_list("fence", flat=True).first()
        # The number is not read back: who stalls before that would read the one of whoever took over meanwhile.
        if fence is not None and free.filter(Bounded(), fence=fence).update(
            holder=holder, fence=fence + 1, expires_at=_expiry()
        ):
            return fence + 1
        if clock() >= until:
            return None
        time.sleep(LOOK_AGAIN_S)


def guard(fence: int) -> None:
    """Renew and lock the lease inside the caller's transaction; raises StaleHolder where it is another's.

    From then on the transaction may neither stand still nor wait for ever: patience.py.
    """
    if not PassLease.objects.filter(Bounded(), pk=1, fence=fence).update(expires_at=_expiry()):
        raise StaleHolder(f"the pass lease {fence} was taken over")


@contextmanager
def writing(fence: int) -> Iterator[None]:
    """Open a transaction in which nobody else's pass writes; raises StaleHolder where the lease is another's."""
    with transaction.atomic():
        guard(fence)
        yield


def give_back(fence: int, took_ms: float) -> None:
    """End the lease and note that the pass was not broken off."""
    PassLease.objects.filter(pk=1, fence=fence).update(
        expires_at=Now(), holder="", finished_at=Now(), took_ms=took_ms, clock_off_s=clock.ahead_s()
    )


def due_at() -> datetime | None:
    """Return when to plan anew even if nothing changed; None: at once."""
    return PassLease.objects.values_list("due_at", flat=True).get(pk=1)


def plan_again_at(fence: int, at: datetime) -> None:
    """Note that a plan was made and written, and when to plan anew even if nothing changes."""
    PassLease.objects.filter(pk=1, fence=fence).update(due_at=at)


def let_go(fence: int) -> None:
    """End the lease of a pass that failed."""
    PassLease.objects.filter(pk=1, fence=fence).update(expires_at=Now(), holder="")


def _is_free() -> Q:
    """Say when a lease may be taken: given back, run out, or written before the database's clock was put back.

    Else nobody would plan for as long as that clock was ahead. A holder that is still alive is fenced off.
    """
    too_far = Now() + timedelta(seconds=2 * LEASE_S)
    return Q(holder="") | Q(expires_at__lte=Now()) | Q(expires_at__gt=too_far)


def _expiry() -> Combinable:
    """Return the end of a lease by the database's clock, which also says whether it is over."""
    return Now() + timedelta(seconds=LEASE_S)
