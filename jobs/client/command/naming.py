"""What the platform refuses, with the task that it is about."""

from collections.abc import Iterator
from contextlib import contextmanager

from jobs.client.errors import Refused


@contextmanager
def naming(task_id: int) -> Iterator[None]:
    """Let a refusal in here begin with the task; one that has nothing to do with it stays as it is."""
    try:
        yield
    except Refused as error:
        if error.status in (403, 404, 409, 410):
            error.args = (f"task {task_id}: {error}",)
        raise
