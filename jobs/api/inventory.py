"""What there is, over HTTP: free cards, hosts, quotas, businesses, templates."""

from collections import defaultdict
from dataclasses import fields
from typing import Any

from django.db.models import F
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster import host_events, inventory
from cluster.models import Card, CardLease, Host
from jobs import use
from jobs.api import asking, shapes
from jobs.models import Template
from quotas import access
from quotas.models import DefaultGpuType, Quota


class FreeCards(APIView):
    """Free cards."""

    @extend_schema(responses=shapes.answers(200, shapes.list_of(shapes.FREE_CARDS)))
    def get(self, request: Request) -> Response:
        """Say how many cards are free per region and type, as ranges, and the most on one host."""
        found = inventory.free_cards(timezone.now(), use.held_cards())
        names = ("region", "gpu_type", "low", "high", "largest_block", "as_of")
        return Response([{name: getattr(free, name) for name in names} for free in found])


class Hosts(APIView):
    """Hosts and their cards."""

    @extend_schema(parameters=shapes.PAGE, responses=shapes.answers(200, shapes.page_of(shapes.HOST)))
    def get(self, request: Request) -> Response:
        """List hosts with their cards; removed ones are left out."""
        names = (
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
        page = asking.page(request, Host.objects.exclude(state="removed").values(*names), newest_first=False)
        cards = _cards([host["id"] for host in page["results"]])
        page["results"] = [_host(host, cards[host["id"]]) for host in page["results"]]
        return Response(page)


FACTS = tuple(field.name for field in fields(host_events.Facts))


def _host(row: dict[str, Any], cards: list[dict[str, Any]]) -> dict[str, Any]:
    facts = host_events.Facts(**{name: row[name] for name in FACTS})
    return {
        "id": row["id"],
        "name": row["name"],
        "region": row["region__name"],
        "state": "lost" if row["lost_since"] else row["state"],
        "reason": host_events.reason(row["state_reason"], row["state_args"]),
        "trouble": row["trouble"],
        "warnings": host_events.warnings(facts, timezone.now()),
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


class Quotas(APIView):
    """Quotas and their use."""

    @extend_schema(responses=shapes.answers(200, shapes.list_of(shapes.QUOTA)))
    def get(self, request: Request) -> Response:
        """List the quotas of the caller's businesses with what is used of them now."""
        mine = list(access.businesses_of(request.user).values_list("id", flat=True))
        used = use.by_business(mine)
        quotas = Quota.objects.filter(business__in=mine).select_related("business", "gpu_type", "region")
        order = ("business__flag", "gpu_type__name", F("region__name").asc(nulls_first=True), "id")
        return Response([_quota(quota, used) for quota in quotas.order_by(*order)])


def _quota(quota: Quota, used: use.Use) -> dict[str, Any]:
    key = (quota.business_id, quota.gpu_type_id, quota.region_id)
    return {
        "business": quota.business.flag,
        "gpu_type": quota.gpu_type.name,
        "region": quota.region.name if quota.region else None,
        "cards": quota.cards,
        "used": used.high(*key),
        "elastic_cards": quota.elastic_cards,
        "elastic_used": used.elastic(*key),
        "user_elastic_cards": quota.user_elastic_cards,
    }


class Businesses(APIView):
    """Businesses."""

    @extend_schema(responses=shapes.answers(200, shapes.list_of(shapes.BUSINESS)))
    def get(self, request: Request) -> Response:
        """List the businesses that the caller may submit for."""
        mine = list(access.businesses_of(request.user).order_by("flag").values_list("id", "flag", "name"))
        types: dict[int, list[str]] = defaultdict(list)
        rows = DefaultGpuType.objects.filter(business__in=[pk for pk, _flag, _name in mine])
        for business, name in rows.values_list("business_id", "gpu_type__name"):
            types[business].append(name)
        return Response(
            [{"business_flag": flag, "name": name, "default_gpu_types": types[pk]} for pk, flag, name in mine]
        )


class Templates(APIView):
    """Templates."""

    @extend_schema(responses=shapes.answers(200, shapes.list_of(shapes.TEMPLATE)))
    def get(self, request: Request) -> Response:
        """List the config documents offered to start from."""
        rows = Template.objects.visible_to(request.user).order_by("name", "id")
        return Response(list(rows.values("id", "name", "description", "config")))
