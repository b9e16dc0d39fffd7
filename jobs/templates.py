"""What a template may hold, and whose names may be alike; the same for the form and for the API."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from jobs import document as documents
from jobs.models import Template
from jobs.values import Fault
from quotas.models import Business


def faults(document: Mapping[str, Any]) -> list[Fault]:
    """Return what no task could have; what is missing is for each user to fill in."""
    normal = documents.normalise(dict(document))
    given = {path: value for path, value in normal.secrets.items() if value is not None}
    return normal.faults + documents.leaks(normal.values, given)


def name_taken(
    user: User, name: str, business: Business | None, owner: User | None, over: Template | None
) -> bool:
    """Say whether another template of the same readers has this name: members of a business, its owner, or all."""
    same = Template.objects.visible_to(user).filter(name=name, business=business)
    if business is None:
        same = same.filter(user=owner)
    return (same.exclude(pk=over.pk) if over else same).exists()
