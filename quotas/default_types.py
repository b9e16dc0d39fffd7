"""Which types tasks of businesses try where they name none, written for many businesses together."""

from collections.abc import Mapping, Sequence

from cluster import rows
from quotas.models import DefaultGpuType


def write(asked: Mapping[int, Sequence[int]]) -> None:
    """Give each business (by id) these types (ids), in this order, and no others. Runs in the caller's transaction."""
    known = DefaultGpuType.objects.filter(business__in=rows.among(asked))
    there = {(row.business_id, row.gpu_type_id): row for row in known}
    wanted = {
        (business, gpu_type): position
        for business, types in asked.items()
        for position, gpu_type in enumerate(types)
    }
    gone = [row.pk for key, row in there.items() if key not in wanted]
    DefaultGpuType.objects.filter(pk__in=rows.among(gone)).delete()
    moved = {
        there[key].pk: (position,)
        for key, position in wanted.items()
        if key in there and there[key].position != position
    }
    rows.update_each(DefaultGpuType, moved, "position")
    # Somebody who adds one of them in a form at this moment adds the same row.
    new = [(*key, position) for key, position in wanted.items() if key not in there]
    rows.insert_new(DefaultGpuType, new, "business", "gpu_type", "position")
