"""What was measured on the cards that a task had."""

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import card_charts
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.tasks import visible


class Cards(APIView):
    """The cards of one attempt."""

    @described(parameters=queries.CARDS_QUERY, responses=shapes.answers(200, shapes.TASK_CARDS))
    def get(self, request: Request, pk: int) -> Response:
        """Give use, memory, temperature, power and faults of the cards, by minutes; null is what nobody knows."""
        task = visible(request, pk)
        asked = asking.number(request, "attempt", 0)
        since, until = asking.moment(request, "from"), asking.moment(request, "to")
        rank = asking.number(request, "rank", 0) if request.query_params.get("rank", "").strip() else None
        attempts = task.attempts.filter(number=asked) if asked else task.attempts.order_by("-number")
        attempt = attempts.first()
        if attempt is not None:
            return Response(card_charts.of_attempt(attempt, since, until, rank))
        if asked:
            raise Http404
        return Response(card_charts.nothing())
