"""The people of a business, over HTTP: seen by those who oversee it, changed by operators."""

from django.contrib.auth.models import User
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.api import asking, bodies, queries, shapes
from jobs.api.authentication import operators_only
from jobs.api.described import described
from jobs.api.tasks import caller
from jobs.config import Fault, Invalid
from jobs.values import choice, not_kept
from quotas import access, membership
from quotas.models import Business, Member

FIELDS = {"role": choice(*Member.Role.values)}


class Members(APIView):
    """The people of one business."""

    @described(parameters=queries.PAGE, responses=shapes.answers(200, shapes.page_of(shapes.PERSON)))
    def get(self, request: Request, pk: int) -> Response:
        """List the members of a business, for its leads, operators and auditors."""
        rows = Member.objects.filter(business=_business(request, pk)).values("id", "user__username", "role")
        page = asking.page(request, rows, newest_first=False)
        page["results"] = [{"user": row["user__username"], "role": row["role"]} for row in page["results"]]
        return Response(page)


class OneMember(APIView):
    """One of them."""

    @described(
        request=shapes.body(shapes.MEMBER_BODY),
        responses=shapes.answers(200, shapes.PERSON) | {(201, "application/json"): shapes.PERSON},
    )
    def put(self, request: Request, pk: int, user: str) -> Response:
        """Take somebody into a business, or change his role; operators alone. 201: he is new there."""
        business = _changeable(request, pk)
        given = bodies.fields(request.data, FIELDS, required=("role",))
        somebody = None if not_kept(user) else User.objects.filter(username=user).first()
        if somebody is None:
            raise Invalid([Fault("user", "unknown", _("There is no user of this name."))])
        member, new = membership.put(business, somebody, given["role"], by=caller(request))
        return Response({"user": user, "role": member.role}, status=201 if new else 200)

    @described(responses=shapes.answers_without_body())
    def delete(self, request: Request, pk: int, user: str) -> Response:
        """Put somebody out of a business, at once; operators alone."""
        business = _changeable(request, pk)
        if not_kept(user):
            raise Http404
        member = get_object_or_404(Member, business=business, user__username=user)
        membership.remove(member, by=caller(request))
        return Response(status=204)


def _business(request: Request, pk: int) -> Business:
    return get_object_or_404(access.businesses_overseen_by(request.user), pk=pk)


def _changeable(request: Request, pk: int) -> Business:
    business = _business(request, pk)
    operators_only(request)
    return business
