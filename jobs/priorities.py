"""The priority of a task that waits, changed by operators: the next pass follows it."""

from collections.abc import Iterable

from django.contrib.auth.models import User
from django.db import transaction

from cluster import hints
from jobs import lifecycle
from jobs.models import Priority, Task
from jobs.states import WAITING


def give(tasks: Iterable[int], priority: Priority, actor: User) -> set[int]:
    """Give waiting tasks (ids) this priority; return those that changed: another state or the same is left alone."""
    changed = set()
    for pk in sorted(tasks):
        with transaction.atomic():
            task = Task.objects.select_for_update().filter(pk=pk, state__in=WAITING).first()
            if task is None or task.priority == priority:
                continue
            document = {**task.config, "priority": priority.name.lower()}  # a copy of it is to have it too
            Task.objects.filter(pk=pk).update(priority=priority, config=document)
            lifecycle.note([pk], code=f"priority_{priority.name.lower()}", actor=actor)
            changed.add(pk)
    if changed:
        hints.wake_pass()
    return changed
