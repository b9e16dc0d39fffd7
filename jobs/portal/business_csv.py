"""The usage rows of one business as CSV."""

from django.http import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from jobs import usage_file
from jobs.portal.business_page import days_of
from jobs.portal.doors import PortalRequest, page
from quotas import access


@page
@require_safe
def usage_csv(request: PortalRequest, pk: int) -> HttpResponseBase:
    """Send what ended in the last ?days=; excel=1 marks the file for Excel."""
    found = get_object_or_404(access.businesses_seen_by(request.user), pk=pk)
    excel = request.GET.get("excel") == "1"
    return usage_file.send(found, days_of(request), to=request.user, for_excel=excel)
