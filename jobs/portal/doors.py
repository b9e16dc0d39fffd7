"""Who gets into a page: people who are logged in, and into some only those who see all."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache
from django_htmx.middleware import HtmxDetails

from cluster import clock
from quotas import access


class PortalRequest(HttpRequest):
    """A request of somebody who is logged in."""

    user: User
    htmx: HtmxDetails


def page(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Let only people in who are logged in.

    A fragment asked for after the session ended is refused: else it would become a login form. What the page
    does then, static/js/page.js says.
    """

    @wraps(view)
    def enter(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.user.is_authenticated:
            clock.follow()  # what he does here bears the time that servers share
        elif request.headers.get("HX-Request"):
            return HttpResponse(status=HTTPStatus.UNAUTHORIZED)
        return view_of_member(request, *args, **kwargs)

    view_of_member = login_required(view)
    return never_cache(enter)


def oversee(request: PortalRequest) -> None:
    """Let those in who see all; for others the page does not exist."""
    if not access.sees_all(request.user):
        raise Http404


def wants_fragment(request: PortalRequest) -> bool:
    """Say whether htmx asks for a part of the page; going back in history asks for the whole one."""
    return bool(request.htmx) and not request.htmx.history_restore_request
