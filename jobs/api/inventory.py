"""What there is, over HTTP: free cards now and before, hosts and their cards."""

from collections import defaultdict
from dataclasses import fields
from typing import Any

from django.db.models import Q, QuerySet
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import clock, host_events, inventory, samples
from cluster.models import Card, CardLease, Host, Region
from jobs import use
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from quotas import access


class FreeCards(APIView):
    """Free cards."""

    @described(responses=shapes.answers(200, shapes.list_of(shapes.FREE_CARDS)))
    def get(self, request: Request) -> Response:
        """Say how many cards are free per region and type, as ranges, and the most on one host.

        To operators and auditors exactly: `low` and `high` are the number itself.
        """
        exactly = access.sees_all(request.user)
        found = inventory.free_cards(clock.now(), use.held_cards())
        return Response([_free(free, exactly) for free in found])


def _free(free: inventory.FreeCards, exactly: bool) -> dict[str, Any]:
    names = ("region", "gpu_type", "largest_block", "as_of")
    low, high = (free.free, free.free) if exactly else (free.low, free.most)
    return {name: getattr(free, name) for name in names} | {"low": low, "high": high}


class FreeCardsHistory(APIView):
    """Free cards of the last day."""

    @described(responses=shapes.answers(200, shapes.page_of(shapes.FREE_HISTORY)))
    def get(self, request: Request) -> Response:
        """Say how many cards were free each quarter of an hour of the last 24 hours, per region and type."""
        days = samples.last_day(clock.now())
        regions = dict(Region.objects.values_list("id", "name"))
        types = inventory.type_names()
        found = [
            {
                "region": regions[region],
                "gpu_type": types[gpu_type],
                "points": [{"at": at, "free": free} for at, free in day],
            }
            for (region, gpu_type), day in days.items()
        ]
        found.sort(key=lambda row: (row["region"], row["gpu_type"]))
        return Response({"results": found, "next": None})


FACTS = tuple(field.name for field in fields(host_events.Facts))
COLUMNS = (
    "id",
    "name",
    "region__name",
    "state",
    "state_reason",
    "state_args",
    "trouble",
    "agent_version",
    *FACTS,
)


class Hosts(APIView):
    """Hosts and their cards."""

    @described(
        operation_id="hosts_list",
        parameters=[*queries.PAGE, *queries.HOST_FILTERS, queries.ONLY],
        responses=shapes.answers(200, shapes.page_of(shapes.HOST)),
    )
    def get(self, request: Request) -> Response:
        """List hosts with their cards; removed ones are left out."""
        page = asking.page(request, _filtered(request).values(*COLUMNS), newest_first=False)
        cards = _cards([host["id"] for host in page["results"]])
        page["results"] = [_host(host, cards[host["id"]]) for host in page["results"]]
        return Response(asking.picked(request, page, shapes.HOST))


class OneHost(APIView):
    """One host."""

    @described(operation_id="hosts_one", responses=shapes.answers(200, shapes.HOST))
    def get(self, request: Request, pk: int) -> Response:
        """Show a host with its cards; one that was removed is there for operators and auditors alone."""
        seen = Host.objects.all() if access.sees_all(request.user) else Host.objects.exclude(state="removed")
        row = seen.filter(pk=pk).values(*COLUMNS).first()
        if row is None:
            raise Http404
        return Response(_host(row, _cards([pk])[pk]))


def _filtered(request: Request) -> QuerySet[Host]:
    """Return the hosts that the query asks for; raises Invalid."""
    hosts = Host.objects.exclude(state="removed")
    known = [state for state in shapes.HOST["properties"]["state"]["enum"] if state != "removed"]
    if states := asking.words(request, "state", known):
        lost = Q(lost_since__isnull=False)
        hosts = hosts.filter(Q(state__in=states) & ~lost | (lost if "lost" in states else Q(pk__in=[])))
    if region := asking.text(request, "region"):
        hosts = hosts.filter(region__name=region)
    if gpu_type := asking.text(request, "gpu_type"):
        hosts = hosts.filter(pk__in=Card.objects.filter(gpu_type__name=gpu_type).values("host"))
    return hosts


def _host(row: dict[str, Any], cards: list[dict[str, Any]]) -> dict[str, Any]:
    facts = host_events.Facts(**{name: row[name] for name in FACTS})
    return {
        "id": row["id"],
        "name": row["name"],
        "region": row["region__name"],
        "state": "lost" if row["lost_since"] else row["state"],
        "reason": host_events.reason(row["state_reason"], row["state_args"]),
        "trouble": row["trouble"],
        "warnings": host_events.warnings(facts, clock.now()),
        "lost_since": row["lost_since"],
        "last_seen_at": row["last_seen_at"],
        "clock_offset_s": row["clock_offset_s"],
        "agent_version": row["agent_version"],
        "cards": cards,
    }


def _cards(hosts: list[int]) -> dict[int, list[dict[str, Any]]]:
    leased = set(
        CardLease.objects.filter(released_at=None, card__host__in=hosts).values_list("card_id", flat=True)
    )
    rows = Card.objects.filter(host__in=hosts).exclude(state=Card.State.MISSING).order_by("host_id", "index")
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for pk, host, index, gpu_type, state in rows.values_list(
        "pk", "host_id", "index", "gpu_type__name", "state"
    ):
        found[host].append({"index": index, "gpu_type": gpu_type, "state": state, "in_use": pk in leased})
    return found
