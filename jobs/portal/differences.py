"""In what the config of a copy differs from that of the task it was copied from."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.models import Task
from quotas import access


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field; None: it is not there."""

    field: str
    here: str | None
    there: str | None


def from_origin(task: Task, user: access.AnyUser) -> list[Difference] | None:
    """Return the fields that differ, by name; None where there is no origin that the user may see."""
    origin = task.origin
    if origin is None or not Task.objects.visible_to(user).filter(pk=origin.pk).exists():
        return None
    here, there = dict(_flat(task.config)), dict(_flat(origin.config))
    return [
        Difference(field=name, here=here.get(name), there=there.get(name))
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]


def _flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Give each value as text under its path, such as env.SEED; lists are compared whole."""
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _flat(inner, f"{path}{name}.")
        else:
            said = inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)
            yield path + name, said
