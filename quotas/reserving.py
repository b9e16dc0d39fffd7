"""Reservations made, changed and ended by operators: with a line in the audit, and the next pass sees it."""

from django.contrib.auth.models import User
from django.db import transaction

from cluster import hints
from quotas import audit
from quotas.models import Reservation


def save(reservation: Reservation, *, by: User) -> Reservation:
    """Keep a reservation, new or changed; raises ValidationError for what can never hold, or overlaps another."""
    new = reservation.pk is None
    with transaction.atomic():
        reservation.full_clean()
        reservation.save()
        audit.note(f"reservation.{'added' if new else 'changed'}", by=by, on=reservation)
        hints.wake_pass()
    return reservation


def remove(reservation: Reservation, *, by: User) -> None:
    """End a reservation: its cards are for all."""
    with transaction.atomic():
        audit.note("reservation.removed", by=by, on=reservation)
        reservation.delete()
        hints.wake_pass()
