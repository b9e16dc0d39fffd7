"""The filtered list as CSV."""

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe

from jobs import filter_words, task_file
from jobs.portal import filter_labels
from jobs.portal.doors import PortalRequest, page


@page
@require_safe
def export(request: PortalRequest) -> HttpResponseBase:
    """Send all tasks that match the filters; excel=1 marks the file for Excel."""
    filters, faults = filter_words.read(request.GET, request.user)
    if faults:  # a file with more than was asked for would not show it
        lines = [filter_labels.said(fault) for fault in faults]
        return HttpResponse("\n".join(lines), status=400, content_type="text/plain; charset=utf-8")
    return task_file.send(filters, for_excel=request.GET.get("excel") == "1")
