"""When the scheduler last looked, over HTTP."""

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api import shapes
from jobs.api.described import described
from jobs.engine import pulse

FIGURE = {"type": "number"}
PULSE = shapes.record(
    last_pass_at=shapes.maybe(shapes.TIME),
    age_s=shapes.maybe(FIGURE),
    took_ms=shapes.maybe(FIGURE),
    late={"type": "boolean"},
    message=shapes.TEXT,
    advice=shapes.TEXT,
)


class Scheduler(APIView):
    """The scheduler."""

    @described(responses=shapes.answers(200, PULSE))
    def get(self, request: Request) -> Response:
        """Say when a pass last ended, whether that is too long ago, and where to look then."""
        found = pulse.look()
        return Response(
            {
                "last_pass_at": found.last_at,
                "age_s": None if found.age_s is None else round(found.age_s, 1),
                "took_ms": found.took_ms,
                "late": found.late,
                "message": found.message,
                "advice": found.advice,
            }
        )
