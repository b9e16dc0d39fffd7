"""What happened to a task, over HTTP."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import task_events
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.tasks import visible
from jobs.models import TaskEvent
from jobs.states import TERMINAL

NAMES = ("id", "at", "code", "args", "old_state", "new_state", "attempt__number", "actor__username")


class Events(APIView):
    """The events of one task."""

    @described(parameters=queries.EVENTS_QUERY, responses=shapes.answers(200, shapes.EVENTS))
    def get(self, request: Request, pk: int) -> Response:
        """List what happened to a task behind `after`, the oldest first; `wait` waits for what comes next.

        `last` is the `after` of the next question; `over`: nothing will happen any more once there are no results.
        """
        asking.waited(request)
        task = visible(request, pk)
        after = asking.number(request, "after", 0)
        limit = asking.number(request, "limit", asking.PAGE, 1, asking.LONGEST_PAGE)
        found = TaskEvent.objects.filter(task=task, pk__gt=after).order_by("pk")[:limit].values(*NAMES)
        events = [_shown(row) for row in found]
        last = events[-1]["id"] if events else after
        page = {"results": events, "last": last, "over": task.state in TERMINAL}
        return Response(asking.picked(request, page, shapes.EVENT))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "at": row["at"],
        "code": row["code"],
        "message": task_events.sentence(row["code"], row["args"], row["new_state"]),
        "old_state": row["old_state"] or None,
        "new_state": row["new_state"] or None,
        "attempt": row["attempt__number"],
        "actor": row["actor__username"],
        "evicted_for": row["args"].get("for"),
        "rule": row["args"].get("rule"),
    }
