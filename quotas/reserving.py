"""Reservations made, changed and ended by operators: with a line in the audit, and the next pass sees it."""

from django.contrib.auth.models import User
from django.db import transaction

from cluster import hints
from quotas import audit
from quotas.models import Reservation


def save(reservation: Reservation, *, by: User) -> Reservation:
    """Keep a reservation, new or changed.

    Raises ValidationError for what can never hold, or overlaps another; Reservation.DoesNotExist where it ended.
    """
    new = reservation.pk is None
    with transaction.atomic():
        if reservation.business_id is not None:
            reservation.business.lock()  # of two that overlap, made at once, the second is refused
        if not new and not _is_there(reservation):
            raise Reservation.DoesNotExist
        reservation.full_clean()
        reservation.save()
        audit.note(f"reservation.{'added' if new else 'changed'}", by=by, on=reservation)
        hints.wake_pass()
    return reservation


def remove(reservation: Reservation, *, by: User) -> None:
    """End a reservation: its cards are for all."""
    with transaction.atomic():
        if _is_there(reservation):  # else somebody was quicker
            audit.note("reservation.removed", by=by, on=reservation)
            reservation.delete()
            hints.wake_pass()


def _is_there(reservation: Reservation) -> bool:
    """Say whether nobody ended it, and let nobody until the transaction is over."""
    return Reservation.objects.select_for_update().filter(pk=reservation.pk).exists()
