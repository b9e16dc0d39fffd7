"""Reservations made, changed and ended by operators: one at a time within a business, and the next pass sees it."""

from django.contrib.auth.models import User
from django.db import transaction

from cluster import hints
from quotas import audit
from quotas.models import Reservation


def save(reservation: Reservation, *, by: User) -> Reservation:
    """Keep a reservation, new or changed, with a line in the audit.

    Raises ValidationError for what can never hold, or overlaps another; Reservation.DoesNotExist where it ended.
    """
    new = reservation.pk is None
    with transaction.atomic():
        hold(reservation)
        reservation.full_clean()
        keep(reservation)
        audit.note(f"reservation.{'added' if new else 'changed'}", by=by, on=reservation)
    return reservation


def remove(reservation: Reservation, *, by: User) -> None:
    """End a reservation, with a line in the audit: its cards are for all."""
    with transaction.atomic():
        if _is_there(reservation):  # else somebody was quicker
            audit.note("reservation.removed", by=by, on=reservation)
            end(reservation)


def hold(reservation: Reservation) -> None:
    """Let nobody else end it, nor reserve for its business, until the transaction at hand is over.

    To be asked before it is checked: of two that overlap, made at once, the second is refused. Raises
    Reservation.DoesNotExist where it ended.
    """
    if reservation.pk is not None and not _is_there(reservation):
        raise Reservation.DoesNotExist
    if reservation.business_id is not None:
        reservation.business.lock()


def keep(reservation: Reservation) -> None:
    """Write a reservation that was checked while it was held."""
    reservation.save()
    hints.wake_pass()


def end(reservation: Reservation) -> None:
    """Remove a reservation, if nobody did already."""
    if _is_there(reservation):
        reservation.delete()
        hints.wake_pass()


def _is_there(reservation: Reservation) -> bool:
    """Say whether nobody ended it, and let nobody until the transaction is over."""
    return Reservation.objects.select_for_update().filter(pk=reservation.pk).exists()
