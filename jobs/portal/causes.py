"""Tasks that another task's page names: everybody may know their number and business, not more."""

from collections.abc import Collection
from dataclasses import dataclass

from jobs.models import Task
from quotas import access


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A task that another one waits for, leaves for, made leave, or was copied from."""

    id: int
    business: str
    visible: bool  # to whom the page is shown


def named(ids: Collection[int], user: access.AnyUser) -> dict[int, Cause]:
    """Return those of the tasks that exist."""
    if not ids:
        return {}
    seen = set(Task.objects.visible_to(user).filter(pk__in=ids).values_list("pk", flat=True))
    flags = Task.objects.filter(pk__in=ids).values_list("pk", "business__flag")
    return {pk: Cause(id=pk, business=flag, visible=pk in seen) for pk, flag in flags}
