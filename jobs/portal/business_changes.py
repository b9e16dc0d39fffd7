"""What was changed in the quotas of a business: when, by whom, why, from what to what."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Window
from django.db.models.functions import Lag
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from cluster import inventory
from cluster.models import Region
from quotas.models import Business, Quota

SHOWN = 20
FIELDS: dict[str, Promise] = {
    "cards": _("cards"),
    "elastic_cards": _("elastic cards at most"),
    "user_elastic_cards": _("elastic cards of one user at most"),
}
DELETED = "-"  # kind of an entry of the history
NOTHING = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of the history of a quota."""

    at: datetime
    who: str
    reason: str
    gpu_type: str
    region: str  # blank: all
    differences: list[tuple[str | Promise, str, str]]  # of what, before, after


def changes(found: Business) -> list[Change]:
    """Return the last changes, the newest first; three queries."""
    before = {f"old_{name}": Window(Lag(name), partition_by="id", order_by="history_id") for name in FIELDS}
    entries: Any = Quota.history
    rows = entries.filter(business=found.pk).annotate(**before).annotate(who=F("history_user__username"))
    types = inventory.type_names()
    regions = dict(Region.objects.values_list("pk", "name"))
    return [
        Change(
            at=row.history_date,
            who=row.who or "",
            reason=row.history_change_reason or "",
            gpu_type=types.get(row.gpu_type_id, f"#{row.gpu_type_id}"),
            region=regions.get(row.region_id, f"#{row.region_id}") if row.region_id else "",
            differences=list(_differences(row)),
        )
        for row in rows.order_by("-history_id")[:SHOWN]
    ]


def _differences(row: Any) -> Iterator[tuple[str | Promise, str, str]]:
    for name, label in FIELDS.items():
        old = getattr(row, f"old_{name}")
        new = None if row.history_type == DELETED else getattr(row, name)
        if old != new:
            yield label, _shown(old), _shown(new)


def _shown(number: int | None) -> str:
    return NOTHING if number is None else str(number)
