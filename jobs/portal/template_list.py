"""The list of templates: to start from, to change, to remove."""

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.portal import saving
from jobs.portal.doors import PortalRequest, page
from quotas import audit


@page
@require_safe
def templates(request: PortalRequest) -> HttpResponse:
    """List the templates, to start from, to change and to remove."""
    return render(request, "templates.html", {"offers": saving.offers(request.user)})


@page
@require_POST
def remove_template(request: PortalRequest, pk: int) -> HttpResponse:
    """Remove a template for good."""
    template = saving.changeable(request.user, pk)
    with transaction.atomic():
        audit.note("template.removed", by=request.user, on=template)
        template.delete()
    messages.success(request, _("The template “%(name)s” was removed.") % {"name": template.name})
    return redirect("templates")
