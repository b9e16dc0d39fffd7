"""Many tasks in one request: submitted, each with its own result, or moved by one verb."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import filter_words, many, matching, services
from jobs.api import bodies, queries, rows, shapes
from jobs.api.described import described
from jobs.api.once import once, once_apart
from jobs.api.parsers import ManyDocumentsParser
from jobs.api.tasks import caller
from jobs.config import Fault, Invalid
from jobs.states import State
from quotas.tokens import Scope

MOST_AT_ONCE = 1000  # documents of one request
SUBMIT_FIELDS, STEER_FIELDS = ("tasks",), ("ids", "filter")


class Submit(APIView):
    """Many documents at once."""

    parser_classes = (ManyDocumentsParser,)
    scopes = {"POST": Scope.SUBMIT}

    @described(
        operation_id="tasks_submit_many",
        parameters=[queries.KEY],
        request=shapes.body(shapes.MANY_DOCUMENTS),
        responses=shapes.answers(200, shapes.MANY_SUBMITTED, 409),
    )
    @once
    def post(self, request: Request) -> Response:
        """Submit up to 1,000 tasks; each has its own result, in their order, and one that is refused stops no other."""
        documents = _documents(bodies.known(request.data, SUBMIT_FIELDS))
        made = services.submit_many(caller(request), documents)
        shown = rows.many_made(request, [one for one in made if not isinstance(one, Invalid)])
        return Response({"results": [_result(one, shown) for one in made]})


def _documents(body: Mapping[str, Any]) -> list[object]:
    """Return the documents of a body; raises Invalid."""
    given = body.get("tasks")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_AT_ONCE:
        message = _("Write a list of 1 to %(most)d documents.") % {"most": MOST_AT_ONCE}
        raise Invalid([Fault("tasks", "length" if isinstance(given, list) else "type", message)])
    return given


def _result(made: Any, shown: Any) -> dict[str, Any]:
    if isinstance(made, Invalid):
        errors = [{"field": one.field, "code": one.code, "message": one.message} for one in made.faults]
        return {"status": 400, "task": None, "errors": errors}
    return {"status": 201, "task": next(shown), "errors": []}


class Steer(APIView):
    """One verb on many tasks."""

    scopes = {"POST": Scope.SUBMIT}
    verb = ""

    @described(
        parameters=[queries.KEY],
        request=shapes.body(shapes.MANY_CHOSEN),
        responses=shapes.answers(200, shapes.MANY_STEERED, 409),
    )
    @once_apart
    def post(self, request: Request) -> Response:
        """Do it to the tasks with these ids, or to all that match a filter, in the words of the list.

        What cannot be done is left as it is and counted with the reason. `more`: there are others that match;
        send the same with a new key.
        """
        body = bodies.known(request.data, STEER_FIELDS)
        ids, more = _chosen(request, self.verb, body)
        outcome = many.act(self.verb, ids, caller(request))
        return Response(
            {
                "done": outcome.done.total(),
                "by_state": _states(outcome.done),
                "skipped": [
                    {"why": why, "state": state, "number": number}
                    for (why, state), number in sorted(outcome.skipped.items())
                ],
                "refusals": outcome.refusals,
                "more": more,
            }
        )


def _states(counted: Counter[str]) -> dict[str, int]:
    return {state.value: counted[state] for state in State if counted[state]}


def _chosen(request: Request, verb: str, body: Mapping[str, Any]) -> tuple[list[int], bool]:
    """Return the ids that a body chooses, and whether there are more that match; raises Invalid."""
    ids, asked = body.get("ids"), body.get("filter")
    if (ids is None) == (asked is None):
        raise Invalid([Fault("", "required", _('Give either "ids", a list of numbers, or "filter".'))])
    if ids is not None:
        return _ids(ids, many.most(verb)), False
    filters, faults = filter_words.read(_query(asked), caller(request))
    if faults:
        raise Invalid([replace(fault, field=f"filter.{fault.field}") for fault in faults])
    states = (filters.states or frozenset(State)) & many.LEGAL[verb]
    found = matching.matching(replace(filters, states=states), many.most(verb))
    return found.ids, found.more or found.reached is not None


def _ids(given: object, most: int) -> list[int]:
    good = isinstance(given, list) and all(type(one) is int and 0 < one < 2**63 for one in given)
    if isinstance(given, list) and good and 0 < len(given) <= most:
        return given
    message = _("Write a list of 1 to %(most)d numbers of tasks.") % {"most": most}
    raise Invalid([Fault("ids", "length" if good else "type", message)])


def _query(given: object) -> QueryDict:
    """Return a filter as the list's address would say it; one that narrows nothing is refused, for it means all."""
    known = [name for name in filter_words.NAMES if name != "sort"]
    example = _('Write an object such as {"state": "queued", "user": "me"}.')
    if not isinstance(given, dict) or not given:
        raise Invalid([Fault("filter", "type", example)])
    query = QueryDict(mutable=True)
    faults = []
    for name, value in given.items():
        if name not in known:
            message = _("There is no such filter; known: %s.") % ", ".join(known)
            faults.append(Fault(f"filter.{str(name)[:64]}", "unknown", message))
        elif not isinstance(value, str) or not value.strip():
            faults.append(Fault(f"filter.{name}", "type", _("Write a text; several values behind commas.")))
        else:
            query[name] = value
    if faults:
        raise Invalid(faults)
    return query
