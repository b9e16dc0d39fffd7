"""One's own account: who one is here, the tokens for programs, the password."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from jobs.portal import tokens
from jobs.portal.doors import PortalRequest, page
from jobs.portal.login import OwnPasswordForm, change_password
from quotas import access
from quotas.models import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the user is, and where."""

    role: str | Promise
    business: str = ""  # blank: on the whole platform


@page
@require_safe
def account(request: PortalRequest) -> HttpResponse:
    """Show the account."""
    return show(request)


@page
@require_POST
def password(request: PortalRequest) -> HttpResponse:
    """Change the password."""
    form = OwnPasswordForm(request.user, request.POST)
    if not request.user.has_usable_password() or not form.is_valid():
        return show(request, password_form=form, status=400)
    change_password(request, form)
    return redirect("account")


@page
@require_POST
def make_token(request: PortalRequest) -> HttpResponse:
    """Make a token, and show it in this answer alone."""
    form = tokens.TokenForm(request.POST, user=request.user)
    made = tokens.make(request.user, form) if form.is_valid() else None
    if made is None:
        return show(request, token_form=form, status=400)
    return show(request, made=made, status=201)


@page
@require_POST
def revoke_token(request: PortalRequest, pk: int) -> HttpResponse:
    """End a token of one's own, or of a business that one leads."""
    tokens.revoke(request, pk)
    return redirect("account")


def show(
    request: PortalRequest,
    *,
    token_form: tokens.TokenForm | None = None,
    password_form: OwnPasswordForm | None = None,
    made: tokens.Made | None = None,
    status: int = 200,
) -> HttpResponse:
    """Answer with the page, with what was filled in wrongly or made just now."""
    context = {
        "parts": _parts(request),
        "own": tokens.own(request.user),
        "of_businesses": tokens.of_businesses(request.user),
        "made": made,
        "token_form": token_form or tokens.TokenForm(None, user=request.user),
        "password_form": password_form or OwnPasswordForm(request.user),
    }
    return render(request, "account.html", context, status=status)


def _parts(request: PortalRequest) -> list[Part]:
    user = request.user
    found = []
    if access.is_operator(user):
        found.append(Part(role=_("operator")))
    if access.is_auditor(user):
        found.append(Part(role=_("auditor")))
    mine = Member.objects.filter(user=user).select_related("business").order_by("business__flag")
    return [*found, *(Part(role=one.get_role_display(), business=one.business.flag) for one in mine)]
