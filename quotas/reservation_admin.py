"""Reservations in the admin: held, checked, kept and ended as those of the API are."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from cluster.kept_admin import KeepsHistory
from quotas import reserving
from quotas.models import Reservation


class ReservationForm(forms.ModelForm):
    """A reservation that nobody else ends, and that none is made beside, while it is checked and kept."""

    class Meta:
        model = Reservation
        exclude = ()

    def clean(self) -> dict[str, Any] | None:
        """Hold it first: whether it overlaps another is asked after that."""
        cleaned = super().clean() or self.cleaned_data
        if business := cleaned.get("business"):
            try:
                reserving.hold(Reservation(pk=self.instance.pk, business=business))
            except Reservation.DoesNotExist:
                self.add_error(None, gettext("Somebody else ended this reservation just now."))
        return cleaned


@admin.register(Reservation)
class ReservationAdmin(KeepsHistory):
    """Cards kept for a business. They go before the guarantee of others, and grant no quota."""

    form = ReservationForm
    list_display = ("business", "gpu_type", "region", "cards", "when", "note")
    list_filter = ("kind", "gpu_type", "region")
    list_select_related = ("business", "gpu_type", "region")
    search_fields = ("business__flag", "note")
    autocomplete_fields = ("business", "gpu_type", "region")
    show_full_result_count = False

    @admin.display(description=_("when"), ordering="starts_at")
    def when(self, reservation: Reservation) -> str:
        """Return when it holds."""
        return reservation.when

    def save_model(self, request: HttpRequest, obj: Reservation, form: Any, change: bool) -> None:
        """Keep it, for the next pass to see."""
        reserving.keep(obj)

    def delete_model(self, request: HttpRequest, obj: Reservation) -> None:
        """End it, for the next pass to see."""
        reserving.end(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Reservation]) -> None:
        """End the chosen ones."""
        for reservation in queryset:
            reserving.end(reservation)
