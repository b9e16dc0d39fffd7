"""Businesses, over HTTP: who the caller is in them, their quotas."""

from collections import defaultdict
from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs import use
from jobs.api import asking, queries, shapes
from jobs.api.described import described
from jobs.api.tasks import caller
from quotas import access
from quotas.models import ApiToken, Business, DefaultGpuType, Member, Quota


class Me(APIView):
    """Who calls."""

    @described(responses=shapes.answers(200, shapes.ME))
    def get(self, request: Request) -> Response:
        """Say who the caller is, what he may, and how far his token goes."""
        user, token = caller(request), request.auth
        roles = Member.objects.filter(user=user, business__in=access.businesses_of(user))
        key = None
        if isinstance(token, ApiToken):
            key = {"name": token.name, "scope": token.scope, "expires_at": token.expires_at}
        return Response(
            {
                "user": user.get_username(),
                "operator": access.is_operator(user),
                "auditor": access.is_auditor(user),
                "businesses": [
                    {"business_flag": flag, "role": role}
                    for flag, role in roles.order_by("business__flag").values_list("business__flag", "role")
                ],
                "token": key,
            }
        )


class Businesses(APIView):
    """Businesses."""

    @described(
        parameters=[*queries.PAGE, queries.ONLY],
        responses=shapes.answers(200, shapes.page_of(shapes.BUSINESS)),
    )
    def get(self, request: Request) -> Response:
        """List the businesses that the caller may submit for."""
        rows = access.businesses_of(request.user).values("id", "flag", "name")
        page = asking.page(request, rows, newest_first=False)
        types: dict[int, list[str]] = defaultdict(list)
        defaults = DefaultGpuType.objects.filter(business__in=[row["id"] for row in page["results"]])
        for business, name in defaults.values_list("business_id", "gpu_type__name"):
            types[business].append(name)
        page["results"] = [
            {
                "id": row["id"],
                "business_flag": row["flag"],
                "name": row["name"],
                "default_gpu_types": types[row["id"]],
            }
            for row in page["results"]
        ]
        return Response(asking.picked(request, page, shapes.BUSINESS))


class Quotas(APIView):
    """Quotas and their use."""

    @described(
        parameters=[*queries.PAGE, queries.ONLY, queries.OF_BUSINESS],
        responses=shapes.answers(200, shapes.page_of(shapes.QUOTA)),
    )
    def get(self, request: Request) -> Response:
        """List the quotas that the caller sees, with what is used of them now."""
        names = ("id", "business__flag", "gpu_type__name", "region__name", *QUOTA_IDS, *CAPS)
        page = asking.page(
            request, Quota.objects.filter(business__in=seen(request)).values(*names), newest_first=False
        )
        used = use.by_business(sorted({row["business_id"] for row in page["results"]}))
        page["results"] = [_quota(row, used) for row in page["results"]]
        return Response(asking.picked(request, page, shapes.QUOTA))


def seen(request: Request) -> QuerySet[Business]:
    """Return the businesses that the caller sees, or of them the one that is asked for."""
    found = access.businesses_seen_by(request.user)
    flag = asking.text(request, "business")
    return found.filter(flag=flag) if flag else found


QUOTA_IDS = ("business_id", "gpu_type_id", "region_id")
CAPS = ("cards", "elastic_cards", "user_elastic_cards")


def _quota(row: dict[str, Any], used: use.Use) -> dict[str, Any]:
    key = (row["business_id"], row["gpu_type_id"], row["region_id"])
    return {
        "id": row["id"],
        "business": row["business__flag"],
        "gpu_type": row["gpu_type__name"],
        "region": row["region__name"],
        **{name: row[name] for name in CAPS},
        "used": used.high(*key),
        "elastic_used": used.elastic(*key),
    }
