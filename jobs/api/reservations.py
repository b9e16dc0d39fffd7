"""Reservations over HTTP: seen by their business, made, changed and ended by operators."""

from collections.abc import Mapping
from datetime import datetime, time
from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster.models import GpuType, Region
from jobs.api import asking, bodies, queries, shapes
from jobs.api.authentication import operators_only
from jobs.api.businesses import seen
from jobs.api.described import described
from jobs.api.once import once
from jobs.api.tasks import caller
from jobs.config import Fault, Invalid
from jobs.values import choice, known, moment, refuse, text, unless_kept, whole, wrong_type
from quotas import access, reserving
from quotas.models import Business, Reservation

MOST_CARDS = 1_000_000


def _time_of_day(value: object) -> time:
    if not isinstance(value, str):
        wrong_type(value, _('a time of day such as "08:30"'))
    try:
        found = time.fromisoformat(value.strip())
    except ValueError:
        refuse("format", _('This is no time of day; write it such as "08:30".'))
    if found.tzinfo is not None:
        refuse("format", _("Write it without a zone: that stands in time_zone."))
    return found


def _moment(value: object) -> datetime:
    return datetime.fromisoformat(moment(value))


FIELDS = {
    "business": known(64),
    "gpu_type": known(64),
    "region": known(64),
    "cards": whole(1, MOST_CARDS),
    "kind": choice(*Reservation.Kind.values),
    "starts_at": _moment,
    "ends_at": _moment,
    "weekday": whole(0, 6),
    "from_time": _time_of_day,
    "to_time": _time_of_day,
    "time_zone": text(64),
    "note": text(255),
}
PLAIN = ("cards", "kind", "starts_at", "ends_at", "weekday", "from_time", "to_time", "time_zone", "note")
COLUMNS = ("id", "business__flag", "gpu_type__name", "region__name", *PLAIN)
NEEDED = ("business", "gpu_type", "cards")


class Reservations(APIView):
    """Reservations."""

    @described(
        operation_id="reservations_list",
        parameters=[*queries.PAGE, queries.ONLY, queries.OF_BUSINESS],
        responses=shapes.answers(200, shapes.page_of(shapes.RESERVATION)),
    )
    def get(self, request: Request) -> Response:
        """List the cards that are reserved for the businesses that the caller sees."""
        rows = Reservation.objects.filter(business__in=seen(request)).values(*COLUMNS)
        page = asking.page(request, rows)
        page["results"] = [_shown(row) for row in page["results"]]
        return Response(asking.picked(request, page, shapes.RESERVATION))

    @described(
        parameters=[queries.KEY],
        request=shapes.body(shapes.RESERVATION_BODY),
        responses=shapes.answers(201, shapes.RESERVATION, 409),
    )
    @once
    def post(self, request: Request) -> Response:
        """Reserve cards for a business; operators alone."""
        operators_only(request)
        return Response(_saved(request, Reservation()), status=201)


class OneReservation(APIView):
    """One of them."""

    @described(operation_id="reservations_one", responses=shapes.answers(200, shapes.RESERVATION))
    def get(self, request: Request, pk: int) -> Response:
        """Show a reservation of a business that the caller sees."""
        return Response(_one(_visible(request, pk)))

    @described(
        request=shapes.body(shapes.RESERVATION_BODY), responses=shapes.answers(200, shapes.RESERVATION)
    )
    def put(self, request: Request, pk: int) -> Response:
        """Put what the body says in the place of a reservation; operators alone."""
        reservation = _visible(request, pk)
        operators_only(request)
        return Response(_saved(request, reservation))

    @described(responses=shapes.answers_without_body())
    def delete(self, request: Request, pk: int) -> Response:
        """End a reservation; operators alone."""
        reservation = _visible(request, pk)
        operators_only(request)
        reserving.remove(reservation, by=caller(request))
        return Response(status=204)


def _visible(request: Request, pk: int) -> Reservation:
    return get_object_or_404(Reservation, business__in=access.businesses_seen_by(request.user), pk=pk)


def _saved(request: Request, reservation: Reservation) -> dict[str, Any]:
    """Keep what the body says; raises Invalid with every fault."""
    checks = FIELDS | {"note": unless_kept(reservation.note, FIELDS["note"])}
    given, faults = bodies.gathered(request.data, checks, required=NEEDED)
    for name, model, by in (
        ("business", Business, "flag"),
        ("gpu_type", GpuType, "name"),
        ("region", Region, "name"),
    ):
        setattr(reservation, name, _named(given, name, model, by, faults))
    usual = {"kind": Reservation.Kind.STANDING, "time_zone": "UTC", "note": ""}
    for name in PLAIN:
        setattr(reservation, name, given.get(name, usual.get(name)))
    if faults:
        told = {fault.field for fault in faults}
        faults += [Fault(name, "value", str(said)) for name, said in reservation.faults() if name not in told]
        raise Invalid(faults)
    try:
        return _one(reserving.save(reservation, by=caller(request)))
    except ValidationError as error:
        raise Invalid(list(_faults(error))) from error
    except Reservation.DoesNotExist as error:
        raise Http404 from error


def _named(given: Mapping[str, Any], name: str, model: Any, by: str, faults: list[Fault]) -> Any:
    if not given.get(name):
        return None
    found = model.objects.filter(**{by: given[name]}).first()
    if found is None:
        faults.append(Fault(name, "unknown", _("There is none of this name.")))
    return found


def _faults(error: ValidationError) -> list[Fault]:
    return [
        Fault("" if name == "__all__" else name, "value", " ".join(said))
        for name, said in error.message_dict.items()
    ]


def _one(reservation: Reservation) -> dict[str, Any]:
    return _shown(get_object_or_404(Reservation.objects.values(*COLUMNS), pk=reservation.pk))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "business": row["business__flag"],
        "gpu_type": row["gpu_type__name"],
        "region": row["region__name"],
        **{name: row[name] for name in PLAIN},
    }
