"""When the scheduler last looked, for pages that stay open."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.portal.doors import PortalRequest, page


@page
@require_safe
def scheduler(request: PortalRequest) -> HttpResponse:
    """Return the banner that says so, empty where all is well: each page asks for it once a minute."""
    return render(request, "includes/pulse.html")
