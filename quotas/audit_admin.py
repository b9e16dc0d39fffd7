"""The audit in the admin, to look at."""

from ipaddress import ip_address

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from cluster.admin import ReadOnlyAdmin
from cluster.large_admin import Large
from quotas import audit
from quotas.models import AuditEntry


@admin.register(AuditEntry)
class AuditEntryAdmin(Large, ReadOnlyAdmin):
    """Who did what from where; the portal's page searches and exports it."""

    list_display = ("at", "actor", "deed", "kind", "target_id", "target", "address", "token_id")
    sortable_by = ("at",)
    search_fields = ("=actor", "=deed", "=target_id", "=address")  # as get_search_results does
    search_help_text = _(
        "A whole name of a user or of a deed, an address, or the number of what it was done to. The portal's page "
        "finds more."
    )
    fields = (
        *("at", "deed", "actor", "actor_id", "kind", "target_id", "target", "address", "agent"),
        *("token_id", "args"),
    )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        """Find entries by what has an index, which only what is written exactly so can be found by."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if term.isdecimal():
            return queryset & audit.of_target(term), False
        if _is_address(term):
            return queryset.filter(address=term), False
        return queryset.filter(Q(actor=term) | Q(deed=term)), False


def _is_address(term: str) -> bool:
    try:
        ip_address(term)
    except ValueError:
        return False
    return True
